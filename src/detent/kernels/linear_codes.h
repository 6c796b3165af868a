#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "detent/core/element_types.h"

namespace detent {

/// Rounded to even, from the zero point, within the type; NaN has the code 0.
template <class Code>
Code code_of(float x, float scale, float zero) {
  constexpr auto kLow = static_cast<float>(std::numeric_limits<Code>::min());
  constexpr auto kHigh = largest_float_within<Code>();
  const float step = std::nearbyint(x / scale) + zero;
  return static_cast<Code>(std::isnan(step) ? 0 : std::clamp(step, kLow, kHigh));
}

/// A code times its scale, from the zero point.
template <class Code>
float value_of(Code code, float scale, int64_t zero) {
  return static_cast<float>(static_cast<int64_t>(code) - zero) * scale;
}

// The same of `count` adjacent elements. Zero points are codes of 16 bits at most.

void codes_of(const float* values, float scale, float zero, uint8_t* codes, int64_t count);
void codes_of(const float* values, float scale, float zero, int8_t* codes, int64_t count);
void codes_of(const float* values, float scale, float zero, int16_t* codes, int64_t count);

void values_of(const uint8_t* codes, float scale, int32_t zero, float* values, int64_t count);
void values_of(const int8_t* codes, float scale, int32_t zero, float* values, int64_t count);
void values_of(const int16_t* codes, float scale, int32_t zero, float* values, int64_t count);

/// Bytes that cover [low, high], where 0 lies between: what ONNX's DynamicQuantizeLinear makes of a tensor's
/// least and largest element. A tensor of one value has the scale 1; an end that is infinite or NaN leaves
/// the code 0 to all. Else
///
///     scale = (high - low) / 255      code = round(x / scale) + zero      zero = round(-low / scale)
struct DynamicCodes {
  static constexpr float kLargest = std::numeric_limits<uint8_t>::max();

  float scale;
  uint8_t zero;  // the code of 0

  /// NaN where an element is.
  DynamicCodes(float low, float high) {
    scale = high == low ? 1.0F : (high - low) / kLargest;
    zero = code_of<uint8_t>(-low, scale, 0);
  }

  uint8_t code(float x) const { return code_of<uint8_t>(x, scale, zero); }
};

}  // namespace detent
