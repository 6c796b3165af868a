#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace detent {

/// 2^exponent by its bits, for -126 <= exponent <= 127.
constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

/// The same for -1022 <= exponent <= 1023. Faster than std::ldexp, for tables per tensor.
constexpr double double_power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

/// The largest float32 <= a finite `value`, whatever the rounding mode. Faster than std::nextafter, for
/// tables per tensor.
inline float round_down(double value) {
  const auto nearest = static_cast<float>(value);
  if (!(static_cast<double>(nearest) > value)) return nearest;
  const auto bits = std::bit_cast<uint32_t>(nearest);
  if (nearest == 0) return -std::numeric_limits<float>::denorm_min();
  return std::bit_cast<float>(nearest > 0 ? bits - 1 : bits + 1);
}

/// A finite `value` rounded towards zero to float32.
inline float round_toward_zero(double value) { return value < 0 ? -round_down(-value) : round_down(value); }

/// Closed interval of float32; empty when low > high.
struct Interval {
  float low;
  float high;
};

}  // namespace detent
