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
using BlockShared = std::array<float, 4>;

/// The same with the code that is stored for it.
struct BlockEntry {
  BlockShared shared;
  uint8_t code;
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
    constexpr uint32_t kFraction = 0x7FFFFF;
    const auto bits = std::bit_cast<uint32_t>(max);
    if (bits <= kFraction) return of_subnormal(bits);
    const int up = round_up_ && (bits & kFraction) != 0 ? 1 : 0;
    return entries_[static_cast<size_t>(static_cast<int>(bits >> 23) - 127 - kLowest + up)];
  }
  void set_empty(const BlockEntry& entry) { entries_[kExponents] = entry; }

 private:
  static constexpr int kLowest = -149;
  static constexpr int kExponents = 128 - kLowest + 1;

  // bits * 2^-149.
  const BlockEntry& of_subnormal(uint32_t bits) const {
    if (bits == 0) return entries_[kExponents];
    const int up = round_up_ && !std::has_single_bit(bits) ? 1 : 0;
    return entries_[static_cast<size_t>(static_cast<int>(std::bit_width(bits)) - 1 + up)];
  }

  bool round_up_ = false;
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

/// What the kernel for a BlockGrid needs. Shared are: the largest value, the least addend for elements below
/// and from 2^64 (see block_grid-inl.h), the largest input that does not saturate.
struct BlockGridParameters {
  static constexpr bool kByBlocks = true;
  int mantissa_bits = 0;
  BlockTable table;

  BlockGridParameters() = default;
  explicit BlockGridParameters(const BlockGrid& grid);
  [[gnu::always_inline]] const BlockEntry& entry(float max) const { return table.of(max); }
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
    return {{hold(grid.largest * scale), addend(23), addend(-41), edge.last_held(scale)}, grid.scale_code(k)};
  });
}

}  // namespace detent
