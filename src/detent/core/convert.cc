#include "detent/core/convert.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "detent/core/element_types.h"

namespace detent {
namespace {

float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
float float16_to_float(uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  if (exponent == 31) {
    // Infinity and NaN keep their sign and payload.
    const uint32_t wide =
        (static_cast<uint32_t>(bits & 0x8000) << 16) | 0x7F800000U | (static_cast<uint32_t>(mantissa) << 13);
    return std::bit_cast<float>(wide);
  }
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

/// Sign, 4 exponent (bias 7), 3 mantissa bits; no infinities, and the last magnitude is NaN.
float float8_e4m3_to_float(uint8_t bits) {
  constexpr int kNan = 0x7F;
  const int magnitude = bits & 0x7F;
  const int exponent = magnitude >> 3;
  const int mantissa = magnitude & 7;
  if (magnitude == kNan) return std::bit_cast<float>(0x7FC00000U | static_cast<uint32_t>(bits & 0x80) << 24);
  const float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                    : std::ldexp(static_cast<float>(mantissa + 8), exponent - 10);
  return (bits & 0x80) != 0 ? -value : value;
}

/// The upper half of a binary16.
float float8_e5m2_to_float(uint8_t bits) { return float16_to_float(static_cast<uint16_t>(bits << 8)); }

template <class Source, class Function>
Tensor converted(const Tensor& tensor, Function function) {
  Tensor result = unfilled_tensor(DType::kFloat32, tensor.shape());
  const auto* source = reinterpret_cast<const Source*>(tensor.bytes().data());
  const auto target = result.values<float>();
  for (size_t i = 0; i < target.size(); ++i) target[i] = function(source[i]);
  return result;
}

}  // namespace

Tensor to_float32(const Tensor& tensor) {
  const auto cast = [](auto value) { return static_cast<float>(value); };
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return tensor;
    case DType::kFloat64:
      return converted<double>(tensor, cast);
    case DType::kFloat16:
      return converted<uint16_t>(tensor, float16_to_float);
    case DType::kFloat8E4M3:
      return converted<uint8_t>(tensor, float8_e4m3_to_float);
    case DType::kFloat8E5M2:
      return converted<uint8_t>(tensor, float8_e5m2_to_float);
    case DType::kBFloat16:
      return converted<uint16_t>(tensor, bfloat16_to_float);
    case DType::kBool:
    case DType::kUInt8:
      return converted<uint8_t>(tensor, cast);
    case DType::kInt8:
      return converted<int8_t>(tensor, cast);
    case DType::kInt16:
      return converted<int16_t>(tensor, cast);
    case DType::kInt32:
      return converted<int32_t>(tensor, cast);
    case DType::kInt64:
      return converted<int64_t>(tensor, cast);
  }
  DETENT_CHECK(false, "dtype {}", dtype_name(tensor.dtype()));
  return tensor;
}

namespace {

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

uint16_t float_to_float16(float value) {
  constexpr float kLeastNormal = 0x1p-14F;
  constexpr float kBeyond = 65520;  // what rounds to infinity
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float size = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00);
  if (size >= kBeyond) return static_cast<uint16_t>(sign | 0x7C00);
  if (size < kLeastNormal) {  // a multiple of 2^-24, by the sum's rounding
    const uint32_t steps = std::bit_cast<uint32_t>(size + 0.5F) - std::bit_cast<uint32_t>(0.5F);
    return static_cast<uint16_t>(sign | steps);
  }
  const uint32_t rounded = (bits & 0x7FFFFFFF) + 0xFFF + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | (rounded - ((127U - 15) << 23)) >> 13);
}

template <class To, class From>
To converted_element(From from) {
  if constexpr (std::is_same_v<To, bool>) {
    return from != 0;
  } else if constexpr (std::is_floating_point_v<To> || !std::is_floating_point_v<From>) {
    return static_cast<To>(from);
  } else {
    constexpr From kBound = 0x1p63;
    const bool fits = from >= -kBound && from < kBound;
    return static_cast<To>(fits ? static_cast<int64_t>(from) : std::numeric_limits<int64_t>::min());
  }
}

template <class From>
Tensor converted_from(const Tensor& tensor, DType dtype) {
  Tensor result = unfilled_tensor(dtype, tensor.shape());
  const auto from = tensor.values<From>();
  const auto each = [&](auto* to, auto element) {
    for (size_t i = 0; i < from.size(); ++i) to[i] = element(from[i]);
  };
  if (dtype == DType::kFloat16) {
    each(words_of<uint16_t>(result), [](From x) { return float_to_float16(static_cast<float>(x)); });
  } else if (dtype == DType::kBFloat16) {
    each(words_of<uint16_t>(result), [](From x) { return float_to_bfloat16(static_cast<float>(x)); });
  } else {
    visit_numbers(dtype,
                  [&]<class To>(To) { each(result.values<To>().data(), converted_element<To, From>); });
  }
  return result;
}

}  // namespace

Tensor widened(const Tensor& tensor) {
  const bool is_short = is_floating_point(tensor.dtype()) && tensor.dtype() != DType::kFloat64;
  return is_short ? to_float32(tensor) : tensor;
}

Tensor to_dtype(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  const Tensor from = widened(tensor);
  if (from.dtype() == dtype) return from;
  return visit_numbers(from.dtype(), [&]<class From>(From) { return converted_from<From>(from, dtype); });
}

std::optional<Tensor> tensor_of_number(const Value& number, DType dtype) {
  const auto held = [&]<class T>(T given) -> std::optional<Tensor> {
    const Tensor result = to_dtype(Tensor::from<T>({}, std::vector{given}), dtype);
    if (is_floating_point(dtype) || to_dtype(result, DTypeOf<T>::value).template values<T>()[0] == given)
      return result;
    return std::nullopt;
  };
  if (const auto* integer = number.get_if<int64_t>()) return held(*integer);
  if (const auto* real = number.get_if<double>()) return held(*real);
  return std::nullopt;
}

}  // namespace detent
