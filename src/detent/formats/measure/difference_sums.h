#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace detent {

/// Sums over pairs (x, y) of an original and a quantized value, side by side: pair i has its part in lane
/// i mod kLanes, in order, so that every instruction set adds the same numbers.
struct DifferenceSums {
  static constexpr size_t kLanes = 4;
  using Lanes = std::array<double, kLanes>;

  Lanes signal = {};   // sum of x^2
  Lanes noise = {};    // sum of (x - y)^2
  Lanes product = {};  // sum of x y
  Lanes power = {};    // sum of y^2
  Lanes largest = {};  // of |x - y|
  int64_t zeros = 0;   // among y
};

/// Pairs that are looked at together before they are added.
constexpr int64_t kDifferenceBlock = 256;

/// Adds whole blocks of pairs up to the first that has a value that is not finite. Returns the pairs added.
int64_t add_finite_blocks(const float* original, const float* quantized, int64_t size, DifferenceSums& sums);
/// The same, pair by pair.
int64_t add_finite_blocks_reference(const float* original, const float* quantized, int64_t size,
                                    DifferenceSums& sums);

}  // namespace detent
