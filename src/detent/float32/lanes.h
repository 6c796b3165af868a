#pragma once

#include <cstddef>

namespace detent {

/// Sums add element i to lane i % kSumLanes.
inline constexpr size_t kSumLanes = 16;

/// The lanes added up: each of the first half and its partner in the second, until one is left.
template <class T>
T folded_sum(T* lanes) {
  for (size_t width = kSumLanes / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

}  // namespace detent
