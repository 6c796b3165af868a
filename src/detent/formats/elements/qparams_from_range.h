#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "detent/formats/float_bits.h"

namespace detent {

/// Which scales calibration may give: any float32, or powers of two only, which integer hardware applies by
/// shifting: the smallest that holds the range, or the nearest to it that float32 has (2^-149 to 2^127).
enum class ScaleForm { kFloat, kPowerOfTwo };
constexpr std::array<const char*, 2> enum_names(ScaleForm) { return {"float", "power_of_two"}; }

namespace format_detail {

/// The smallest interval that holds 0 and all of `ranges`.
inline Interval union_with_zero(std::span<const Interval> ranges) {
  Interval all{0, 0};
  for (const Interval& range : ranges) all = {std::min(all.low, range.low), std::max(all.high, range.high)};
  return all;
}

inline double largest_magnitude(std::span<const Interval> ranges) {
  const auto [low, high] = union_with_zero(ranges);
  return static_cast<double>(std::max(-low, high));
}

/// The largest integer e with magnitude * 2^e <= limit; both are positive and finite.
inline int largest_shift(double limit, double magnitude) {
  const int shift = std::ilogb(limit) - std::ilogb(magnitude);
  return std::ldexp(magnitude, shift) <= limit ? shift : shift - 1;
}

/// The smallest power of two that is not below a positive `step`, held to those that float32 has.
inline float power_of_two_not_below(double step) {
  return std::ldexp(1.0F, std::clamp(-largest_shift(1.0, step), -149, 127));
}

/// `format` with the largest exponent bias in [least, most] whose largest value, now `largest` and halved by
/// each step of the bias, holds all of `ranges`; unchanged when there is nothing but 0 to hold.
template <class F>
F with_bias_for_range(F format, double largest, int least, int most, std::span<const Interval> ranges) {
  const double magnitude = largest_magnitude(ranges);
  if (magnitude == 0) return format;
  format.exponent_bias = std::clamp(format.bias() + largest_shift(largest, magnitude), least, most);
  return format;
}

}  // namespace format_detail
}  // namespace detent
