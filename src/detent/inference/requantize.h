#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

// Requantization of a 32-bit sum, in the two ways in use.
//
// Float multiplier, as ONNX Runtime and oneDNN: code = clamp(round(float(sum) * m) + zero_point), with the
// float32 m = input scale * weight scale / output scale, ties to even.
//
// Fixed point, as gemmlowp and TensorFlow Lite: m = multiplier * 2^(shift - 31) with an integer multiplier in
// [2^30, 2^31); the product's high half and the division by a power of two round, ties away from zero (but
// the high half of a negative product: up). B. Jacob et al. 2018, arXiv:1712.05877, section 2.2, and
// gemmlowp's fixedpoint.h.

namespace detent {

/// multiplier * 2^(shift - 31)
struct FixedMultiplier {
  int32_t multiplier = 0;
  int shift = 0;

  bool operator==(const FixedMultiplier&) const = default;
  /// The nearest to `real` >= 0. Values below 2^-31 count as 0. Throws Error from 2^30 on.
  static FixedMultiplier of(double real);
};

/// round(a * b / 2^31): gemmlowp's SaturatingRoundingDoublingHighMul.
inline int32_t rounding_high_product(int32_t a, int32_t b) {
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
  if (a == kLowest && b == kLowest) return std::numeric_limits<int32_t>::max();
  const int64_t product = int64_t{a} * b;
  const int64_t nudge = product >= 0 ? int64_t{1} << 30 : 1 - (int64_t{1} << 30);
  return static_cast<int32_t>((product + nudge) / (int64_t{1} << 31));
}

/// round(x / 2^exponent), ties away from zero: gemmlowp's RoundingDivideByPOT.
inline int32_t rounding_shift(int32_t x, int exponent) {
  const auto mask = static_cast<int32_t>((int64_t{1} << exponent) - 1);
  const int32_t remainder = x & mask;
  const int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
  return (x >> exponent) + (remainder > threshold ? 1 : 0);
}

/// round(x * m). x * 2^shift must fit into 32 bits where the shift is above 0; beyond, it saturates.
inline int32_t fixed_product(int32_t x, const FixedMultiplier& m) {
  const int64_t shifted = int64_t{x} * (int64_t{1} << std::max(m.shift, 0));
  const auto held = static_cast<int32_t>(
      std::clamp<int64_t>(shifted, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
  return rounding_shift(rounding_high_product(held, m.multiplier), std::max(-m.shift, 0));
}

}  // namespace detent
