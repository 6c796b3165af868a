#pragma once

#include "detent/formats/codes/block_coding.h"

namespace detent {

/// Elements: sign and magnitude, of m / 2^M. That is a minifloat with one exponent bit: its two binades have
/// the same step. Exponents: e + bias.
template <>
struct BlockCoding<BlockFp> : BlockCodingWithoutStreams<BlockFp> {
  static constexpr const char* kScaleStream = "exponents";
  static Format elements(const BlockFp& format) {
    return MinifloatIeee{.width = format.width, .exponent_width = 1, .exponent_bias = 2};
  }
  static BlockScales scales(const BlockFp& format, const double*) { return grid_scales(format.grid()); }
};

}  // namespace detent
