#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

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

/// Sums, in double, of the differences from the first element of a row, and of their squares.
struct RowSums {
  double first = 0;
  double sum = 0;
  double squares = 0;
};

/// Normalization of a row: (x - high) - low, times scale.
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

/// Elements in sixteen lanes (row_reductions.h).
double row_sum(std::span<const float> row);
double row_sum_reference(std::span<const float> row);

/// How the elements of rows become one.
struct RowReduction {
  /// For elements that lie adjacent.
  float (*row)(std::span<const float> row);
  /// results[j] = row(rows[0][j], rows[1][j], ...), j < `count`; nullptr where only adjacent elements are
  /// reduced.
  void (*rows)(const float* const* rows, int64_t row_count, int64_t count, float* results) = nullptr;
};

/// results[j] = the sum of rows[i][j] over i, in double and in the lanes of row_sum(), divided by `divisor`.
void sum_of_rows(const float* const* rows, int64_t row_count, int64_t count, double divisor, float* results);
void sum_of_rows_reference(const float* const* rows, int64_t row_count, int64_t count, double divisor,
                           float* results);

/// The same, added up in double one row after the other.
void mean_of_rows(const float* const* rows, int64_t row_count, int64_t count, double divisor, float* results);
void mean_of_rows_reference(const float* const* rows, int64_t row_count, int64_t count, double divisor,
                            float* results);

/// results[j] = the largest, or smallest, of rows[i][j] over i, by Larger or Smaller (core/pair_functions.h)
/// one row after the other.
void largest_of_rows(const float* const* rows, int64_t row_count, int64_t count, float* results);
void largest_of_rows_reference(const float* const* rows, int64_t row_count, int64_t count, float* results);
void smallest_of_rows(const float* const* rows, int64_t row_count, int64_t count, float* results);
void smallest_of_rows_reference(const float* const* rows, int64_t row_count, int64_t count, float* results);

/// results[j] = rows[0][j] * weights[0] + rows[1][j] * weights[1] + ..., each product and sum rounded by
/// itself.
void weighted_rows(const float* const* rows, const float* weights, int64_t row_count, int64_t count,
                   float* results);
void weighted_rows_reference(const float* const* rows, const float* weights, int64_t row_count, int64_t count,
                             float* results);

}  // namespace detent
