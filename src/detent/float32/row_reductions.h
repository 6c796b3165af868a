#pragma once

#include <cstdint>
#include <span>

namespace detent {

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

/// results[j] = rows[0][j] * weights[0] + rows[1][j] * weights[1] + ..., each product and sum rounded by
/// itself.
void weighted_rows(const float* const* rows, const float* weights, int64_t row_count, int64_t count,
                   float* results);
void weighted_rows_reference(const float* const* rows, const float* weights, int64_t row_count, int64_t count,
                             float* results);

}  // namespace detent
