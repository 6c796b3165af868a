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
