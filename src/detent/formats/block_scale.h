#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "detent/formats/float_bits.h"

namespace detent {

/// What the elements of one block share, as the kernel wants it.
using BlockShared = std::array<float, 5>;

/// The same with the code that is stored for it. For `plain` blocks the kernel has a shorter way.
struct BlockEntry {
  BlockShared shared;
  uint8_t code;
  bool plain;
};

/// The exponent of a block's largest finite magnitude: -149 to 128.
struct MaxExponent {
  bool round_up = false;  // ceil(log2 max), else floor

  static constexpr int kLowest = -149;
  static constexpr int kHighest = 128;
  static constexpr int32_t kFraction = 0x7FFFFF;

  /// max > 0.
  int of(float max) const {
    const auto bits = std::bit_cast<uint32_t>(max);
    const bool normal = bits > static_cast<uint32_t>(kFraction);
    const int floor =
        normal ? static_cast<int>(bits >> 23) - 127 : static_cast<int>(std::bit_width(bits)) - 150;
    const bool power = normal ? (bits & kFraction) == 0 : std::has_single_bit(bits);
    return floor + (round_up && !power ? 1 : 0);
  }
  /// Added to the bits of a normal magnitude, what makes their exponent this one.
  int32_t carry() const { return round_up ? kFraction : 0; }
};

/// What plain blocks share, by arithmetic on the bits of their largest magnitudes, which are from `from` on
/// and below `until`: of all finite ones that are normal in float32, a run of exponents. With the exponent's
/// bits held to [lowest, highest], `first` and `second` add up to the bits of the first two shared values,
/// and `code` to the code's, where the exponent counts downward if `descends`.
struct PlainBlocks {
  MaxExponent exponent;
  int32_t from = 0, until = 0;
  int32_t lowest = 0, highest = 0, first = 0, second = 0;
  int32_t code = 0;
  bool descends = false;

  static constexpr int32_t bits_of(int exponent) { return exponent * (1 << 23); }
  /// The bits of 2^exponent, held to what float32 has.
  static constexpr int32_t held(int exponent) { return bits_of(std::clamp(exponent + 127, 0, 255)); }

  /// Those of largest magnitudes with an exponent in [lowest, highest].
  void set_exponents(int lowest_plain, int highest_plain) {
    from = std::max(held(lowest_plain) - exponent.carry(), 1 << 23);
    until = std::max(held(highest_plain + 1) - exponent.carry(), from);
  }
  bool contains(int32_t bits) const { return from <= bits && bits < until; }
};

/// Elements of a block that are 2^k times those of a minifloat, where
/// k = clamp(floor or ceil (log2 max) + offset, lowest, highest). An equally spaced grid is a minifloat whose
/// values are all subnormal.
struct BlockGrid {
  int mantissa_bits;  // 0 <= M <= 22
  int min_exponent;
  double largest;
  int offset;
  int lowest;
  int highest;    // at most lowest + 255
  bool round_up;  // ceil
  bool codes_descend = false;
  bool one_zero = false;  // +0 only; else what rounds to 0 keeps its sign

  int scale_exponent(int max_exponent) const { return std::clamp(max_exponent + offset, lowest, highest); }
  /// How k is stored: counted from `lowest` up, or from `highest` down.
  uint8_t scale_code(int k) const { return static_cast<uint8_t>(codes_descend ? highest - k : k - lowest); }
  int exponent_of_code(int code) const { return codes_descend ? highest - code : lowest + code; }
  /// The blocks with k in [lowest_plain, highest_plain] need no shift: their normal values are normal in
  /// float32 too, and the addends do not overflow.
  int lowest_plain() const { return -126 - min_exponent; }
  int highest_plain() const {
    const int top = std::max(std::ilogb(largest), min_exponent);
    return std::min(103 - top, 79 - min_exponent + mantissa_bits);
  }
};

/// The largest float32 that is not beyond `value` >= 0, even if that is infinite for float32.
inline float hold(double value) {
  return round_down(std::min(value, static_cast<double>(std::numeric_limits<float>::max())));
}

/// 2^exponent by its bits, for -1022 <= exponent <= 1023: tables are made for each tensor, and std::ldexp is
/// slow.
constexpr double double_power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

/// Where the elements of a BlockGrid, times 2^k, begin to saturate: half a step above the largest value. As a
/// tie that belongs to the even one of its neighbours.
class SaturationEdge {
 public:
  explicit SaturationEdge(const BlockGrid& grid) {
    const int exponent = std::max(std::ilogb(grid.largest), grid.min_exponent);
    const double step = std::ldexp(1.0, exponent - grid.mantissa_bits);
    edge_ = grid.largest + step / 2;
    tie_leaves_ = std::fmod(grid.largest / step, 2.0) != 0.0;
  }

  /// The largest float32 that does not saturate.
  float last_held(double scale) const {
    const double edge = edge_ * scale;
    const float below = hold(edge);
    const bool leaves = tie_leaves_ && below > 0 && static_cast<double>(below) == edge;
    return leaves ? std::bit_cast<float>(std::bit_cast<uint32_t>(below) - 1) : below;
  }

 private:
  double edge_;
  bool tie_leaves_;
};

/// What the kernel for a BlockGrid needs. Shared are: the largest value, the least addend, 2^23 times it for
/// elements below 2^64 and 2^-41 times it for others (see block_grid-inl.h), the largest input that does not
/// saturate.
class BlockGridParameters {
 public:
  static constexpr bool kByBlocks = true;

  explicit BlockGridParameters(const BlockGrid& grid);
  /// Of a block whose largest finite magnitude is `max`; where that is 0, of one with the largest float32:
  /// its infinities, if any, become the largest value of the format.
  BlockEntry entry(float max) const;
  int mantissa_bits() const { return grid_.mantissa_bits; }
  bool one_zero() const { return grid_.one_zero; }
  const PlainBlocks& plain_blocks() const { return plain_blocks_; }

 private:
  BlockGrid grid_;
  SaturationEdge edge_;
  int lowest_plain_, highest_plain_;
  PlainBlocks plain_blocks_;
};

inline BlockGridParameters::BlockGridParameters(const BlockGrid& grid)
    : grid_(grid), edge_(grid), lowest_plain_(grid.lowest_plain()), highest_plain_(grid.highest_plain()) {
  const auto& [mantissa_bits, min_exponent, largest, offset, lowest, highest, round_up, descends, one_zero] =
      grid;
  plain_blocks_ = {
      .exponent = {round_up},
      .lowest = PlainBlocks::held(lowest - offset),
      .highest = PlainBlocks::held(highest - offset),
      .first = std::bit_cast<int32_t>(static_cast<float>(largest)) + PlainBlocks::bits_of(offset - 127),
      .second = PlainBlocks::bits_of(offset + min_exponent - mantissa_bits + 23),
      .code = descends ? highest + 127 - offset : offset - 127 - lowest,
      .descends = descends};
  if (lowest > highest_plain_ || highest < lowest_plain_) return;
  plain_blocks_.set_exponents(lowest < lowest_plain_ ? lowest_plain_ - offset : MaxExponent::kLowest,
                              highest > highest_plain_ ? highest_plain_ - offset : MaxExponent::kHighest);
}

inline BlockEntry BlockGridParameters::entry(float max) const {
  const float counted = max > 0 ? max : std::numeric_limits<float>::max();
  const int k = grid_.scale_exponent(plain_blocks_.exponent.of(counted));
  const int step = k + grid_.min_exponent - grid_.mantissa_bits;
  const auto addend = [&](int shift) { return power_of_two(std::clamp(step + shift + 23, -126, 126)); };
  const double scale = double_power_of_two(k);
  return {.shared = {hold(grid_.largest * scale), addend(0), addend(23), addend(-41), edge_.last_held(scale)},
          .code = grid_.scale_code(k),
          .plain = lowest_plain_ <= k && k <= highest_plain_};
}

}  // namespace detent
