#pragma once

#include <cstdint>

namespace detent {

/// What a kernel of PackedLinear computes: outputs whose weights lie together, for some rows.
struct PanelSums {
  const float* inputs;   // [rows, depth]
  const float* weights;  // [depth, width]; null where there is `halves` instead
  const float* bias;     // [width]
  float* results;
  int64_t rows;
  int64_t depth;
  int64_t width;                     // a multiple of sixteen
  int64_t stride;                    // between rows of results
  const uint16_t* halves = nullptr;  // the upper halves of weights whose lower halves are 0
};

}  // namespace detent
