#include "detent/kernels/row_reductions.h"

#include <algorithm>

#include "detent/core/pair_functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/row_reductions.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/kernels/elementary-inl.h"
#include "detent/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

using HalfSingles = hn::Rebind<float, Doubles>;

/// Sixteen columns at once: lane i % 16 of each of them, 2 KiB, stays in the first-level cache. Lanes that no
/// row reaches are +0, which changes no other, for these begin with +0 and so never are -0.
void SumOfRows(const float* const* rows, int64_t row_count, int64_t count, double divisor, float* results) {
  const Doubles d;
  const HalfSingles half;
  constexpr size_t kLanes = hn::MaxLanes(d);
  const size_t used = std::min(static_cast<size_t>(row_count), kSumLanes);
  ForEachSixteen(static_cast<size_t>(count), [&](size_t first, auto part) HWY_ATTR {
    alignas(64) double lanes[kSumLanes][kSumLanes];
    for (size_t v = 0; v < kSumLanes; v += kLanes) hn::Store(hn::Zero(d), d, lanes[0] + v);
    for (int64_t row = 0; row < row_count; ++row) {
      double* const sums = lanes[static_cast<size_t>(row) % kSumLanes];
      const bool is_first = row < int64_t{kSumLanes};
      for (size_t v = 0; v < kSumLanes; v += kLanes) {
        const auto values = hn::PromoteTo(d, part.Load(half, rows[row] + first + v, v, 0));
        const auto before = is_first ? hn::Zero(d) : hn::Load(d, sums + v);
        hn::Store(hn::Add(before, values), d, sums + v);
      }
    }
    for (size_t width = kSumLanes / 2; width > 0; width /= 2) {
      for (size_t i = 0; i < width && i + width < used; ++i) {
        for (size_t v = 0; v < kSumLanes; v += kLanes)
          hn::Store(hn::Add(hn::Load(d, lanes[i] + v), hn::Load(d, lanes[i + width] + v)), d, lanes[i] + v);
      }
    }
    for (size_t v = 0; v < kSumLanes; v += kLanes) {
      const auto sum = hn::Load(d, lanes[0] + v);
      const auto quotient = divisor == 1 ? sum : hn::Div(sum, hn::Set(d, divisor));
      part.Store(RoundToFloat(half, quotient), half, results + first + v, v);
    }
  });
}

/// Thirty-two columns at once, whose sums registers hold, while there are so many.
void MeanOfRows(const float* const* rows, int64_t row_count, int64_t count, double divisor, float* results) {
  constexpr size_t kLanes = hn::MaxLanes(Doubles());
  const auto add_up = [&](size_t first, auto part, auto sixteens) HWY_ATTR {
    const Doubles d;
    const HalfSingles half;
    constexpr size_t kVectors = decltype(sixteens)::value * kSumLanes / kLanes;
    hn::VFromD<Doubles> sums[kVectors];
    for (auto& sum : sums) sum = hn::Zero(d);
    for (int64_t row = 0; row < row_count; ++row) {
      for (size_t v = 0; v < kVectors; ++v) {
        const float* const from = rows[row] + first + v * kLanes;
        sums[v] = hn::Add(sums[v], hn::PromoteTo(d, part.Load(half, from, v * kLanes, 0)));
      }
    }
    for (size_t v = 0; v < kVectors; ++v) {
      const auto quotient = RoundToFloat(half, hn::Div(sums[v], hn::Set(d, divisor)));
      part.Store(quotient, half, results + first + v * kLanes, v * kLanes);
    }
  };
  size_t first = 0;
  for (; first + 2 * kSumLanes <= static_cast<size_t>(count); first += 2 * kSumLanes)
    add_up(first, WholeSixteen(), std::integral_constant<size_t, 2>());
  ForEachSixteen(static_cast<size_t>(count) - first, [&](size_t after, auto part) HWY_ATTR {
    add_up(first + after, part, std::integral_constant<size_t, 1>());
  });
}

void WeightedRows(const float* const* rows, const float* weights, int64_t row_count, int64_t count,
                  float* results) {
  const Singles d;
  ForEachSixteen(static_cast<size_t>(count), [&](size_t first, auto part) HWY_ATTR {
    for (size_t v = 0; v < kSumLanes; v += hn::MaxLanes(d)) {
      auto sum = hn::Mul(part.Load(d, rows[0] + first + v, v, 0), hn::Set(d, weights[0]));
      for (int64_t row = 1; row < row_count; ++row) {
        const auto values = part.Load(d, rows[row] + first + v, v, 0);
        sum = hn::Add(sum, hn::Mul(values, hn::Set(d, weights[row])));
      }
      part.Store(sum, d, results + first + v, v);
    }
  });
}

/// The first of equal ones, the last of NaNs, in vectors that do not wait for each other.
template <bool kLargest, size_t kVectors, class Part>
HWY_INLINE void ExtremesOfColumns(const float* const* rows, int64_t row_count, size_t first, float* result,
                                  Part part) {
  const Singles d;
  constexpr size_t kWidth = hn::MaxLanes(Singles());
  hn::VFromD<Singles> extreme[kVectors];
  for (size_t v = 0; v < kVectors; ++v)
    extreme[v] = part.Load(d, rows[0] + first + v * kWidth, v * kWidth, 0);
  for (int64_t row = 1; row < row_count; ++row) {
    for (size_t v = 0; v < kVectors; ++v) {
      const auto next = part.Load(d, rows[row] + first + v * kWidth, v * kWidth, 0);
      const auto is_beyond = kLargest ? hn::Lt(extreme[v], next) : hn::Gt(extreme[v], next);
      extreme[v] = hn::IfThenElse(hn::Or(is_beyond, hn::IsNaN(next)), next, extreme[v]);
    }
  }
  for (size_t v = 0; v < kVectors; ++v) part.Store(extreme[v], d, result + first + v * kWidth, v * kWidth);
}

template <bool kLargest>
HWY_INLINE void ExtremesOfRows(const float* const* rows, int64_t row_count, int64_t count, float* result) {
  constexpr size_t kWidth = hn::MaxLanes(Singles());
  constexpr size_t kTogether = 4 * kWidth;
  const auto all = static_cast<size_t>(count);
  size_t first = 0;
  for (; first + kTogether <= all; first += kTogether)
    ExtremesOfColumns<kLargest, 4>(rows, row_count, first, result, WholeSixteen());
  ForEachSixteen(all - first, [&](size_t after, auto part) HWY_ATTR {
    ExtremesOfColumns<kLargest, kSumLanes / kWidth>(rows, row_count, first + after, result, part);
  });
}

void LargestOfRows(const float* const* rows, int64_t row_count, int64_t count, float* results) {
  ExtremesOfRows<true>(rows, row_count, count, results);
}
void SmallestOfRows(const float* const* rows, int64_t row_count, int64_t count, float* results) {
  ExtremesOfRows<false>(rows, row_count, count, results);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SumOfRows);
HWY_EXPORT(MeanOfRows);
HWY_EXPORT(WeightedRows);
HWY_EXPORT(LargestOfRows);
HWY_EXPORT(SmallestOfRows);

namespace {

template <class Pair>
void fold_rows(const float* const* rows, int64_t row_count, int64_t count, float start, float* results) {
  std::fill_n(results, count, start);
  for (int64_t row = 0; row < row_count; ++row) {
    for (int64_t i = 0; i < count; ++i) results[i] = Pair::of(rows[row][i], results[i]);
  }
}

}  // namespace

void largest_of_rows(const float* const* rows, int64_t row_count, int64_t count, float* results) {
  HWY_DYNAMIC_DISPATCH(LargestOfRows)(rows, row_count, count, results);
}

void largest_of_rows_reference(const float* const* rows, int64_t row_count, int64_t count, float* results) {
  fold_rows<Larger>(rows, row_count, count, -HUGE_VALF, results);
}

void smallest_of_rows(const float* const* rows, int64_t row_count, int64_t count, float* results) {
  HWY_DYNAMIC_DISPATCH(SmallestOfRows)(rows, row_count, count, results);
}

void smallest_of_rows_reference(const float* const* rows, int64_t row_count, int64_t count, float* results) {
  fold_rows<Smaller>(rows, row_count, count, HUGE_VALF, results);
}

void sum_of_rows(const float* const* rows, int64_t row_count, int64_t count, double divisor, float* results) {
  HWY_DYNAMIC_DISPATCH(SumOfRows)(rows, row_count, count, divisor, results);
}

void sum_of_rows_reference(const float* const* rows, int64_t row_count, int64_t count, double divisor,
                           float* results) {
  for (int64_t column = 0; column < count; ++column) {
    double lanes[kSumLanes] = {};
    for (int64_t row = 0; row < row_count; ++row)
      lanes[static_cast<size_t>(row) % kSumLanes] += static_cast<double>(rows[row][column]);
    results[column] = static_cast<float>(folded_sum(lanes) / divisor);
  }
}

void mean_of_rows(const float* const* rows, int64_t row_count, int64_t count, double divisor,
                  float* results) {
  HWY_DYNAMIC_DISPATCH(MeanOfRows)(rows, row_count, count, divisor, results);
}

void mean_of_rows_reference(const float* const* rows, int64_t row_count, int64_t count, double divisor,
                            float* results) {
  for (int64_t column = 0; column < count; ++column) {
    double sum = 0;
    for (int64_t row = 0; row < row_count; ++row) sum += static_cast<double>(rows[row][column]);
    results[column] = static_cast<float>(sum / divisor);
  }
}

void weighted_rows(const float* const* rows, const float* weights, int64_t row_count, int64_t count,
                   float* results) {
  HWY_DYNAMIC_DISPATCH(WeightedRows)(rows, weights, row_count, count, results);
}

void weighted_rows_reference(const float* const* rows, const float* weights, int64_t row_count, int64_t count,
                             float* results) {
  for (int64_t column = 0; column < count; ++column) {
    float sum = rows[0][column] * weights[0];
    for (int64_t row = 1; row < row_count; ++row) sum += rows[row][column] * weights[row];
    results[column] = sum;
  }
}

}  // namespace detent
#endif  // HWY_ONCE
