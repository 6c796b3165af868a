#pragma once

#include <cstdint>

namespace detent {

/// Rows of a matrix that are computed with at once, one a lane.
inline constexpr int64_t kRowLanes = 16;

/// For each row r of `factors`, and each lane:
/// sums[r * kRowLanes + lane] = the sum over k < depth of factors[r * stride + k] * lanes[k * kRowLanes +
/// lane], in the order of k, each product rounded before it is added.
struct LaneProduct {
  const double* factors;
  int64_t stride;
  int64_t rows;
  const double* lanes;
  int64_t depth;
  double* sums;
};
void multiply_lanes(const LaneProduct& product);

/// row[j] -= factors[i] * rows[i][j] for j < count, for one i < row_count after another, each product rounded
/// first.
void subtract_rows(const double* factors, const double* const* rows, int64_t row_count, double* row,
                   int64_t count);

/// The same two in the obvious way.
namespace plain {

inline void multiply_lanes(const LaneProduct& p) {
  for (int64_t i = 0; i < p.rows * kRowLanes; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < p.depth; ++k) {
      const double product = p.factors[i / kRowLanes * p.stride + k] * p.lanes[k * kRowLanes + i % kRowLanes];
      sum += product;
    }
    p.sums[i] = sum;
  }
}

inline void subtract_rows(const double* factors, const double* const* rows, int64_t row_count, double* row,
                          int64_t count) {
  for (int64_t i = 0; i < row_count; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      const double product = factors[i] * rows[i][j];
      row[j] -= product;
    }
  }
}

}  // namespace plain

}  // namespace detent
