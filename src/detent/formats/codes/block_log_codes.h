#pragma once

#include "detent/formats/codes/block_coding.h"

namespace detent {

/// Elements: those of log. Biases: as they are.
template <>
struct BlockCoding<BlockLog> : BlockCodingWithoutStreams<BlockLog> {
  static constexpr const char* kScaleStream = "biases";
  static Format elements(const BlockLog& format) {
    return Log{.width = format.width, .exponent_bias = element_bias(format)};
  }
  /// Elements are powers of two, which float32 arithmetic rounds toward zero where it cannot hold them: half
  /// the smallest is a tie, and 0 is even.
  static BlockScales scales(const BlockLog& format, const double*) {
    const int element_bias = BlockCoding::element_bias(format);
    const double largest = double_power_of_two(format.top_code() - element_bias);
    BlockScales scales;
    for (int bias = 0; bias < 1 << format.exponent_bias_width; ++bias) {
      scales.push_back(power_of_two_scale(element_bias - bias, largest, largest));
    }
    return scales;
  }

 private:
  /// The top element is 1, or the last that float32 has, so that float32 has the lowest one too.
  static int element_bias(const BlockLog& format) { return std::min(format.top_code(), 128); }
};

}  // namespace detent
