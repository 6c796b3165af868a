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

/// The same with the code that is stored for it.
struct BlockEntry {
  BlockShared shared;
  uint8_t code;
};

/// The first two of the shared values once more, by arithmetic, for the plain entries of a BlockTable: with
/// the exponent bits of the block's largest magnitude, held to [lowest, highest], these add up to their bits.
struct PlainBits {
  int32_t lowest, highest, first, second;

  static constexpr int32_t exponent(int exponent) { return exponent * (1 << 23); }
  /// The bits of 2^exponent, held to what float32 has.
  static constexpr int32_t held(int exponent) {
    return PlainBits::exponent(std::clamp(exponent + 127, 0, 255));
  }
};

/// Shared values that depend on the exponent of a block's largest magnitude alone, and the code that is
/// stored for them: one entry for each exponent that float32 has.
class BlockTable {
 public:
  BlockTable() = default;
  /// Calls entry(e) for floor(log2 max), or ceil(log2 max), = e from -149 to 128. A block without a finite
  /// non-zero element counts as one of the largest float32: its infinities, if any, become the largest value
  /// of the format.
  template <class MakeEntry>
  BlockTable(bool round_up, MakeEntry&& entry) : round_up_(round_up) {
    for (int i = 0; i < kExponents; ++i) entries_[static_cast<size_t>(i)] = entry(i + kLowest);
    set_empty(of(std::numeric_limits<float>::max()));
  }

  /// Of a block whose largest finite magnitude is `max`.
  [[gnu::always_inline]] const BlockEntry& of(float max) const {
    const auto bits = std::bit_cast<uint32_t>(max);
    if (bits <= kFraction) return of_subnormal(bits);
    const int up = round_up_ && (bits & kFraction) != 0 ? 1 : 0;
    return entries_[static_cast<size_t>(static_cast<int>(bits >> 23) - 127 - kLowest + up)];
  }
  void set_empty(const BlockEntry& entry) { entries_[kExponents] = entry; }

  /// Says which entries a kernel has a shorter way for: those of `plain`, one run of exponents.
  template <class Plain>
  void set_plain(const Plain& plain) {
    int first = 0;
    while (first < kExponents && !plain(entries_[static_cast<size_t>(first)].shared)) ++first;
    int end = kExponents;
    while (end > first && !plain(entries_[static_cast<size_t>(end - 1)].shared)) --end;
    const auto bits_of = [](int i) { return std::clamp(i + kLowest + 127, 0, 255) * (1 << 23); };
    plain_from_ = std::max(bits_of(first) - carry(), 1 << 23);
    plain_size_ = static_cast<uint32_t>(std::max(bits_of(end) - carry(), plain_from_) - plain_from_);
  }
  /// Whether these are the bits of the largest magnitude of a block with a plain entry: they are not where
  /// that is an infinity, NaN, 0 or a float32 subnormal.
  [[gnu::always_inline]] bool is_plain(int32_t bits) const {
    return static_cast<uint32_t>(bits - plain_from_) < plain_size_;
  }
  [[gnu::always_inline]] const BlockEntry& of_plain(int32_t bits) const {
    return entries_[static_cast<size_t>(((bits + carry()) >> 23) - 127 - kLowest)];
  }
  int32_t plain_from() const { return plain_from_; }
  int32_t plain_until() const { return plain_from_ + static_cast<int32_t>(plain_size_); }
  /// Added to the bits of a float32, what makes the exponent of the sum ceil(log2) where that is asked for.
  int32_t carry() const { return round_up_ ? kFraction : 0; }

 private:
  static constexpr int32_t kFraction = 0x7FFFFF;
  static constexpr int kLowest = -149;
  static constexpr int kExponents = 128 - kLowest + 1;

  // bits * 2^-149.
  const BlockEntry& of_subnormal(uint32_t bits) const {
    if (bits == 0) return entries_[kExponents];
    const int up = round_up_ && !std::has_single_bit(bits) ? 1 : 0;
    return entries_[static_cast<size_t>(static_cast<int>(std::bit_width(bits)) - 1 + up)];
  }

  bool round_up_ = false;
  int32_t plain_from_ = 0;
  uint32_t plain_size_ = 0;
  std::array<BlockEntry, kExponents + 1> entries_;
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

  int scale_exponent(int max_exponent) const { return std::clamp(max_exponent + offset, lowest, highest); }
  /// How k is stored: counted from `lowest` up, or from `highest` down.
  uint8_t scale_code(int k) const { return static_cast<uint8_t>(codes_descend ? highest - k : k - lowest); }
  int exponent_of_code(int code) const { return codes_descend ? highest - code : lowest + code; }
};

/// What the kernel for a BlockGrid needs. Shared are: the largest value, the least addend, 2^23 times it for
/// elements below 2^64 and 2^-41 times it for others (see block_grid-inl.h), the largest input that does not
/// saturate.
struct BlockGridParameters {
  static constexpr bool kByBlocks = true;
  int mantissa_bits = 0;
  BlockTable table;
  PlainBits plain_bits = {};

  BlockGridParameters() = default;
  explicit BlockGridParameters(const BlockGrid& grid);
  [[gnu::always_inline]] const BlockEntry& entry(float max) const { return table.of(max); }
  /// Whether a block with these values needs no shift: its normal values are normal in float32 too, and the
  /// addends do not overflow.
  [[gnu::always_inline]] bool is_plain(const BlockShared& shared) const {
    const float addend_below = shared[2];
    return shared[0] < 0x1p104F && addend_below >= power_of_two(-80 - mantissa_bits) &&
           addend_below < 0x1p126F;
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

inline BlockGridParameters::BlockGridParameters(const BlockGrid& grid) : mantissa_bits(grid.mantissa_bits) {
  const SaturationEdge edge(grid);
  table = BlockTable(grid.round_up, [&](int max_exponent) -> BlockEntry {
    const int k = grid.scale_exponent(max_exponent);
    const int step = k + grid.min_exponent - grid.mantissa_bits;
    const auto addend = [&](int shift) { return power_of_two(std::clamp(step + shift + 23, -126, 126)); };
    const double scale = double_power_of_two(k);
    return {{hold(grid.largest * scale), addend(0), addend(23), addend(-41), edge.last_held(scale)},
            grid.scale_code(k)};
  });
  plain_bits = {.lowest = PlainBits::held(grid.lowest - grid.offset),
                .highest = PlainBits::held(grid.highest - grid.offset),
                .first = std::bit_cast<int32_t>(static_cast<float>(grid.largest)) +
                         PlainBits::exponent(grid.offset - 127),
                .second = PlainBits::exponent(grid.offset + grid.min_exponent - grid.mantissa_bits + 23)};
  table.set_plain([this](const BlockShared& shared) { return is_plain(shared); });
}

}  // namespace detent
