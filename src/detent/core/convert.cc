#include "detent/core/convert.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "detent/core/element_types.h"
#include "detent/core/pair_functions.h"

namespace detent {
namespace {

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

Tensor widened_halves(const Tensor& tensor, void (*widen)(const uint16_t*, float*, size_t)) {
  Tensor result = unfilled_tensor(DType::kFloat32, tensor.shape());
  widen(words_of<uint16_t>(tensor), words_of<float>(result), static_cast<size_t>(tensor.numel()));
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
      return widened_halves(tensor, floats_of_float16);
    case DType::kFloat8E4M3:
      return converted<uint8_t>(tensor, float8_e4m3_to_float);
    case DType::kFloat8E5M2:
      return converted<uint8_t>(tensor, float8_e5m2_to_float);
    case DType::kBFloat16:
      return widened_halves(tensor, floats_of_bfloat16);
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

template <class To, class From>
To converted_element(From from) {
  if constexpr (std::is_same_v<To, bool>) {
    return from != 0;
  } else if constexpr (std::is_floating_point_v<To> || !std::is_floating_point_v<From>) {
    return static_cast<To>(from);
  } else if constexpr (sizeof(To) == 1 && std::is_same_v<From, float>) {
    // The last byte of larger ones is 0, since they are multiples of 2^8.
    constexpr From kBound = 0x1p31;
    const bool fits = (from >= -kBound) & (from < kBound);
    return static_cast<To>(static_cast<int32_t>(selected(fits, from, From())));
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
  const bool is_half = dtype == DType::kFloat16;
  if (is_half || dtype == DType::kBFloat16) {
    const Tensor floats = to_float32(tensor);
    (is_half ? float16_of_floats : bfloat16_of_floats)(words_of<float>(floats), words_of<uint16_t>(result),
                                                       from.size());
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
