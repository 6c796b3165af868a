#pragma once

#include <cstdint>

namespace detent {

/// What a kernel of PackedLinear computes: outputs whose weights lie together, for some rows.
struct PanelSums {
  const float* inputs;   // [rows, depth]
  const float* weights;  // [depth, width]; null where there is one of the others instead
  const float* bias;     // [width]
  float* results;
  int64_t rows;
  int64_t depth;
  int64_t width;                     // a multiple of sixteen
  int64_t stride;                    // between rows of results
  const uint16_t* halves = nullptr;  // the upper halves of weights whose lower halves are 0
  /// Weights are codes times scales [depth / group, width], of inputs that follow each other. Of four bits,
  /// those of input 2 i and 2 i + 1 share a byte, the first in its low bits.
  const int8_t* codes = nullptr;
  const float* scales = nullptr;
  const float* minimums = nullptr;  // as scales; null where none are added
  int64_t group = 0;
  bool are_nibbles = false;
};

}  // namespace detent
