#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "detent/formats/float_bits.h"

namespace detent {

/// Shared values of one block for the kernel.
using BlockShared = std::array<float, 5>;

/// The same with its stored code. `plain` blocks have a shorter path in the kernel.
struct SharedScale {
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
  int of(float max) const;
  /// Added to the bits of a normal magnitude, what makes their exponent this one.
  int32_t carry() const { return round_up ? kFraction : 0; }
};

/// Shared values of plain blocks, by arithmetic on the bits of their largest magnitudes, which are from
/// `from` on and below `until`: of all finite ones that are normal in float32, a run of exponents. With the
/// exponent's bits held to [lowest, highest], `first` and `second` add up to the bits of the first two shared
/// values, and `code` to the code's, where the exponent counts downward if `descends`.
struct PlainBlocks {
  MaxExponent exponent;
  int32_t from = 0, until = 0;
  int32_t lowest = 0, highest = 0, first = 0, second = 0;
  int32_t code = 0;
  bool descends = false;

  static constexpr int32_t bits_of(int exponent) { return exponent * (1 << 23); }
  /// The bits of 2^exponent, clamped to float32's range.
  static constexpr int32_t held(int exponent) { return bits_of(std::clamp(exponent + 127, 0, 255)); }

  /// Blocks are plain whose largest magnitudes have an exponent in [lowest, highest].
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
  int highest_plain() const;
};

/// The largest float32 that is not beyond `value` >= 0, even if that is infinite for float32.
float hold(double value);

/// Where the elements of a BlockGrid, times 2^k, begin to saturate: half a step above the largest value. As a
/// tie that belongs to the even one of its neighbours.
class SaturationEdge {
 public:
  explicit SaturationEdge(const BlockGrid& grid);

  /// The largest float32 that does not saturate.
  float last_held(double scale) const;

 private:
  double edge_;
  bool tie_leaves_;
};

/// Parameters of the kernel for a BlockGrid. Shared are: the largest value, the least addend, 2^23 times it
/// for elements below 2^64 and 2^-41 times it for others (see block_grid-inl.h), the largest input that does
/// not saturate.
class BlockGridParameters {
 public:
  static constexpr bool kByBlocks = true;

  explicit BlockGridParameters(const BlockGrid& grid);
  /// Scale of a block whose largest finite magnitude is `max`; where that is 0, of one with the largest
  /// float32: its infinities, if any, become the largest value of the format.
  SharedScale shared_scale(float max) const;
  int mantissa_bits() const { return grid_.mantissa_bits; }
  bool one_zero() const { return grid_.one_zero; }
  const PlainBlocks& plain_blocks() const { return plain_blocks_; }

 private:
  BlockGrid grid_;
  SaturationEdge edge_;
  int lowest_plain_, highest_plain_;
  PlainBlocks plain_blocks_;
};

/// Meaning of a code of a block's scale: the elements of the block are its values over `factor`.
struct BlockScale {
  double factor = 0;
  /// Where the kernels may multiply with these in float32: from the values that fake_quantize gives to
  /// elements, from elements to values.
  bool plain_element = false;
  bool plain_value = false;
  float to_element = 0;
  float to_value = 0;
  /// Values that float32 cannot hold become the next toward zero, else the nearest; at most the largest.
  bool toward_zero = true;

  /// Exponent of a value that fake quantization gives, a power of two. The largest float32 stands for the
  /// power above it: no grid of fewer than 24 bits has it as a value of its own.
  float element_of(float value) const;

  /// Keeps infinities and NaN.
  float value_of(float element) const;
};

/// By code, from 0; at most 256.
using BlockScales = std::vector<BlockScale>;

/// 2^exponent, for elements that are multiples of `step`, up to `largest`.
BlockScale power_of_two_scale(int exponent, double step, double largest);
/// Scales for elements on the grid times 2^shift.
BlockScales grid_scales(const BlockGrid& grid, int shift = 0);

}  // namespace detent
