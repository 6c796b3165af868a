#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "detent/formats/float_bits.h"
#include "detent/formats/minifloat_grid.h"

namespace detent {

/// The magnitudes of a MinifloatGrid, counted from 0 up: index i < 2^M is the subnormal i * 2^(min_exponent -
/// M); from 2^M on, i = (e - min_exponent + 1) * 2^M + m is (1 + m / 2^M) * 2^e. That is what stands behind
/// the sign of a minifloat's code.
///
/// Normal values are a shift of float32's bits. Where float32 holds them as subnormals, the same is done with
/// 2^32 times the value.
class MinifloatIndex {
 public:
  explicit MinifloatIndex(const MinifloatGrid& grid)
      : shift_(23 - grid.mantissa_bits),
        first_normal_(1 << grid.mantissa_bits),
        offset_((grid.min_exponent + 126) * first_normal_),
        rescaled_offset_(offset_ + kRescaleExponent * first_normal_),
        rescaled_below_((kRescaledBelow - grid.min_exponent + 1) * first_normal_) {
    // 2^(M - min_exponent) may lie beyond float32's exponents, its factors do not.
    const int exponent = grid.mantissa_bits - grid.min_exponent;
    const int first = std::clamp(exponent, -kSafeExponent, kSafeExponent);
    to_index_[0] = power_of_two(first);
    to_index_[1] = power_of_two(exponent - first);
    from_index_[0] = power_of_two(-first);
    from_index_[1] = power_of_two(first - exponent);
    smallest_normal_ = static_cast<float>(first_normal_) * from_index_[0] * from_index_[1];
  }

  /// Of a finite magnitude on the grid; of others, any number.
  uint32_t index_of(float magnitude) const {
    const bool rescaled = magnitude < power_of_two(kRescaledBelow);
    const float scaled = rescaled ? magnitude * power_of_two(kRescaleExponent) : magnitude;
    const int32_t shifted = std::bit_cast<int32_t>(scaled) >> shift_;
    const int32_t normal = shifted - (rescaled ? rescaled_offset_ : offset_);
    const float held =
        std::min(smallest_normal_, magnitude);  // of NaN, which has a code elsewhere, the first
    const auto subnormal = static_cast<int32_t>(held * to_index_[0] * to_index_[1]);
    return static_cast<uint32_t>(magnitude < smallest_normal_ ? subnormal : normal);
  }

  float magnitude_of(uint32_t index) const {
    const auto whole = static_cast<int32_t>(index);
    const bool rescaled = whole < rescaled_below_;
    const int32_t shifted = whole + (rescaled ? rescaled_offset_ : offset_);
    const float scaled = std::bit_cast<float>(static_cast<uint32_t>(shifted) << shift_);
    const float normal = rescaled ? scaled * power_of_two(-kRescaleExponent) : scaled;
    const float subnormal = static_cast<float>(whole) * from_index_[0] * from_index_[1];
    return whole < first_normal_ ? subnormal : normal;
  }

 private:
  static constexpr int kRescaleExponent = 32;
  static constexpr int kRescaledBelow = -64;  // exponent
  static constexpr int kSafeExponent = 100;

  int32_t shift_;
  int32_t first_normal_;
  int32_t offset_;
  int32_t rescaled_offset_;
  int32_t rescaled_below_;
  float smallest_normal_;
  float to_index_[2];
  float from_index_[2];
};

}  // namespace detent
