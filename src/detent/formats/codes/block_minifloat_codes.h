#pragma once

#include "detent/formats/codes/block_coding.h"

namespace detent {

/// Elements: those of minifloat_ieee. Biases: as they are.
template <>
struct BlockCoding<BlockMinifloat> : BlockCodingWithoutStreams<BlockMinifloat> {
  static constexpr const char* kScaleStream = "biases";
  static Format elements(const BlockMinifloat& format) {
    return MinifloatIeee{.width = format.width,
                         .exponent_width = format.exponent_width,
                         .exponent_bias = element_bias(format)};
  }
  static BlockScales scales(const BlockMinifloat& format, const double*) {
    return grid_scales(format.grid(), top_code(format) - element_bias(format));
  }

 private:
  static int top_code(const BlockMinifloat& format) { return (1 << format.exponent_width) - 1; }
  /// The top binade is 1, or the last that float32 has, so that float32 has the lowest one too.
  static int element_bias(const BlockMinifloat& format) { return std::min(top_code(format), 128); }
};

}  // namespace detent
