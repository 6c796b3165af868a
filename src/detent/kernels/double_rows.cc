#include "detent/kernels/double_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/double_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DoubleLanes = hn::CappedTag<double, 8>;

constexpr size_t kVectors = HWY_MIN(size_t{4}, static_cast<size_t>(kRowLanes) / hn::MaxLanes(DoubleLanes()));

/// `Rows` rows of factors by some vectors of lanes, since the sums of one wait for each other.
template <size_t Rows>
HWY_INLINE void SumLanes(const LaneProduct& p, int64_t row) {
  const DoubleLanes d;
  const size_t lanes = hn::Lanes(d);
  const double* const factors = p.factors + row * p.stride;
  for (size_t begin = 0; begin < static_cast<size_t>(kRowLanes); begin += kVectors * lanes) {
    hn::Vec<DoubleLanes> sums[Rows][kVectors];
    for (auto& of_row : sums) {
      for (auto& sum : of_row) sum = hn::Zero(d);
    }
    const double* from = p.lanes + begin;
    for (int64_t k = 0; k < p.depth; ++k, from += kRowLanes) {
      for (size_t r = 0; r < Rows; ++r) {
        const auto factor = hn::Set(d, factors[static_cast<int64_t>(r) * p.stride + k]);
        for (size_t v = 0; v < kVectors; ++v)
          sums[r][v] = hn::Add(sums[r][v], hn::Mul(factor, hn::LoadU(d, from + v * lanes)));
      }
    }
    for (size_t r = 0; r < Rows; ++r) {
      double* const to = p.sums + (row + static_cast<int64_t>(r)) * kRowLanes + begin;
      for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, to + v * lanes);
    }
  }
}

void MultiplyLanes(const LaneProduct& p) {
  int64_t row = 0;
  for (; row + 2 <= p.rows; row += 2) SumLanes<2>(p, row);
  if (row < p.rows) SumLanes<1>(p, row);
}

void SubtractRows(const double* factors, const double* const* rows, int64_t row_count, double* row,
                  int64_t count) {
  const DoubleLanes d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= count; j += lanes) {
    auto value = hn::LoadU(d, row + j);
    for (int64_t i = 0; i < row_count; ++i)
      value = hn::Sub(value, hn::Mul(hn::Set(d, factors[i]), hn::LoadU(d, rows[i] + j)));
    hn::StoreU(value, d, row + j);
  }
  for (; j < count; ++j) {
    for (int64_t i = 0; i < row_count; ++i) row[j] -= factors[i] * rows[i][j];
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(MultiplyLanes);
HWY_EXPORT(SubtractRows);

void multiply_lanes(const LaneProduct& product) { HWY_DYNAMIC_DISPATCH(MultiplyLanes)(product); }

void subtract_rows(const double* factors, const double* const* rows, int64_t row_count, double* row,
                   int64_t count) {
  HWY_DYNAMIC_DISPATCH(SubtractRows)(factors, rows, row_count, row, count);
}

}  // namespace detent
#endif  // HWY_ONCE
