#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace detent {

/// What remains of the elements of a row after its first one, and its squares, summed in double.
struct RowSums {
  double first = 0;
  double sum = 0;
  double squares = 0;
};

/// What a row is normalized by: (x - high) - low, times scale.
struct RowScale {
  float high;
  float low;
  float scale;

  RowScale(const RowSums& sums, size_t count, double eps) {
    const double offset = sums.sum / static_cast<double>(count);
    const double mean = sums.first + offset;
    const double variance = sums.squares / static_cast<double>(count) - offset * offset;
    high = static_cast<float>(mean);
    low = static_cast<float>(mean - static_cast<double>(high));
    scale = static_cast<float>(1 / std::sqrt((variance < 0 ? 0 : variance) + eps));
  }
};

/// Elements in sixteen lanes (lanes.h).
double row_sum(std::span<const float> row);
double row_sum_reference(std::span<const float> row);

}  // namespace detent
