#include "detent/core/convert.h"

#include <bit>
#include <cmath>

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
  Tensor result(DType::kFloat32, tensor.shape());
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

}  // namespace detent
