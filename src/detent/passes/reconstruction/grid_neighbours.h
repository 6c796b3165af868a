#pragma once

#include <algorithm>
#include <span>

namespace detent {

/// The two values of a grid next to a weight, and where between them it lies.
struct GridNeighbours {
  float low;
  float high;       // the same as `low` beyond the ends of the grid
  float share = 0;  // in [0, 1): of the way from low to high

  bool are_two() const { return low < high; }
};

/// `values`: ascending, not empty.
inline GridNeighbours grid_neighbours(std::span<const float> values, float weight) {
  const auto above = std::ranges::lower_bound(values, weight);
  if (above == values.begin()) return {values.front(), values.front()};
  if (above == values.end()) return {values.back(), values.back()};
  const float low = *(above - 1);
  return {low, *above, std::clamp((weight - low) / (*above - low), 0.0F, 1.0F)};
}

}  // namespace detent
