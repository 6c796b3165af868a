#include <cmath>

#include "detent/kernels/window_places.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/largest_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Sixteen columns.
template <class Part>
HWY_INLINE void LargestOfSixteen(const float* const* rows, int64_t row_count, size_t first, float* results,
                                 int32_t* row_of, Part part) {
  const Singles d;
  const hn::RebindToSigned<Singles> di;
  for (size_t v = 0; v < kSumLanes; v += hn::MaxLanes(d)) {
    const size_t column = first + v;
    auto largest = part.Load(d, rows[0] + column, v, 0);
    auto of_largest = hn::Zero(di);
    for (int64_t row = 1; row < row_count; ++row) {
      const auto next = part.Load(d, rows[row] + column, v, 0);
      const auto replaces = hn::Or(hn::Lt(largest, next), hn::IsNaN(next));
      const auto number = hn::Set(di, static_cast<int32_t>(row));
      largest = hn::IfThenElse(replaces, next, largest);
      of_largest = hn::IfThenElse(hn::RebindMask(di, replaces), number, of_largest);
    }
    part.Store(largest, d, results + column, v);
    part.Store(hn::BitCast(d, of_largest), d, reinterpret_cast<float*>(row_of) + column, v);
  }
}

void LargestAndItsRows(const float* const* rows, int64_t row_count, int64_t count, float* results,
                       int32_t* row_of) {
  ForEachSixteen(static_cast<size_t>(count), [&](size_t first, auto part) HWY_ATTR {
    LargestOfSixteen(rows, row_count, first, results, row_of, part);
  });
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(LargestAndItsRows);

void largest_and_its_rows(const float* const* rows, int64_t row_count, int64_t count, float* results,
                          int32_t* row_of) {
  HWY_DYNAMIC_DISPATCH(LargestAndItsRows)(rows, row_count, count, results, row_of);
}

void largest_and_its_rows_reference(const float* const* rows, int64_t row_count, int64_t count,
                                    float* results, int32_t* row_of) {
  for (int64_t i = 0; i < count; ++i) {
    int32_t largest = 0;
    for (int32_t row = 1; row < row_count; ++row) {
      if (rows[row][i] > rows[largest][i] || std::isnan(rows[row][i])) largest = row;
    }
    results[i] = rows[largest][i];
    row_of[i] = largest;
  }
}

}  // namespace detent
#endif  // HWY_ONCE
