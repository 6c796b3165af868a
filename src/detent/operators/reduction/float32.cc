#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/core/pair_functions.h"
#include "detent/core/parallel.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/functions.h"
#include "detent/kernels/row_reductions.h"

namespace detent {
namespace {

/// The elements in rows of those that become one, in row-major order of their dimensions.
struct ReducedRows {
  Tensor elements;
  int64_t length = 1;
  Shape result;
};

ReducedRows reduced_rows(const FloatNode& n, const Tensor& x) {
  const std::vector<bool> is_reduced = reduced_dims(n, x.shape().size());
  const StridedView all = StridedView::of(x.shape());
  StridedView rows;
  ReducedRows reduced;
  for (const bool wanted : {false, true}) {
    for (size_t d = 0; d < is_reduced.size(); ++d) {
      if (is_reduced[d] != wanted) continue;
      rows.shape.push_back(all.shape[d]);
      rows.strides.push_back(all.strides[d]);
      if (wanted) reduced.length *= all.shape[d];
    }
  }
  for (size_t d = 0; d < is_reduced.size(); ++d) {
    if (!is_reduced[d]) reduced.result.push_back(all.shape[d]);
    if (is_reduced[d] && boolean_attribute(n.node, "keepdim")) reduced.result.push_back(1);
  }
  reduced.elements = std::ranges::is_sorted(is_reduced) ? x : gathered(x, rows);
  return reduced;
}

/// Each row by Reduce, whatever the elements are; those of shorter floats as float32, and rounded once.
template <class Reduce>
Tensor reduced(const FloatNode& n) {
  const Tensor given = n.operand(0);
  const ReducedRows rows = reduced_rows(n, widened(given));
  Tensor result(rows.elements.dtype(), rows.result);
  constexpr int64_t kGrain = 8192;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(rows.length, 1));
  visit_numbers(result.dtype(), [&]<class T>(T) {
    const std::span<const T> values = rows.elements.values<T>();
    const std::span<T> to = result.values<T>();
    const auto length = static_cast<size_t>(rows.length);
    parallel_for(result.numel(), grain, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        to[i] = Reduce::of(values.subspan(i * length, length));
    });
  });
  return to_dtype(result, given.dtype());
}

/// Integers are added modulo 2^64.
struct SumOfRow {
  static float of(std::span<const float> row) { return static_cast<float>(row_sum(row)); }
  static double of(std::span<const double> row) { return std::accumulate(row.begin(), row.end(), 0.0); }
  template <class T>
  static T of(std::span<const T> row) {
    uint64_t sum = 0;
    for (const T x : row) sum += static_cast<uint64_t>(x);
    return static_cast<T>(sum);
  }
};

/// Integers have a mean without fraction.
struct MeanOfRow {
  static float of(std::span<const float> row) {
    return static_cast<float>(row_sum(row) / static_cast<double>(row.size()));
  }
  template <class T>
  static T of(std::span<const T> row) {
    double sum = 0;
    for (const T x : row) sum += static_cast<double>(x);
    if (std::is_integral_v<T> && row.empty()) return T();
    return static_cast<T>(sum / static_cast<double>(row.size()));
  }
};

/// Floats are multiplied in double.
struct ProductOfRow {
  template <class T>
  static T of(std::span<const T> row) {
    std::conditional_t<std::is_floating_point_v<T>, double, uint64_t> product = 1;
    for (const T x : row) product *= static_cast<decltype(product)>(x);
    return static_cast<T>(product);
  }
};

struct LargestOfRow {
  template <class T>
  static T of(std::span<const T> row) {
    T most = std::is_floating_point_v<T> ? static_cast<T>(-HUGE_VAL) : std::numeric_limits<T>::lowest();
    for (const T x : row) most = Larger::of(x, most);
    return most;
  }
};

struct SmallestOfRow {
  template <class T>
  static T of(std::span<const T> row) {
    T least = std::is_floating_point_v<T> ? static_cast<T>(HUGE_VAL) : std::numeric_limits<T>::max();
    for (const T x : row) least = Smaller::of(x, least);
    return least;
  }
};

/// log of the sum of exp(x), less the largest x in between.
struct LogSumExpOfRow {
  static float of(std::span<const float> row) {
    const float most = LargestOfRow::of(row);
    if (!std::isfinite(most)) return most;
    std::vector<float> shares(row.begin(), row.end());
    for (float& x : shares) x = function_reference({ElementFunction::Kind::kExp}, x - most);
    return most +
           function_reference({ElementFunction::Kind::kLog}, SumOfRow::of(std::span<const float>(shares)));
  }
  template <class T>
  static T of(std::span<const T> row) {
    const auto most = static_cast<double>(LargestOfRow::of(row));
    if (!std::isfinite(most)) return static_cast<T>(most);
    double sum = 0;
    for (const T x : row) sum += std::exp(static_cast<double>(x) - most);
    return static_cast<T>(most + std::log(sum));
  }
};

template <class Reduce>
float reduced_row(std::span<const float> row) {
  return Reduce::of(row);
}

void sums_of_rows(const float* const* rows, int64_t row_count, int64_t count, float* results) {
  sum_of_rows(rows, row_count, count, 1, results);
}

void means_of_rows(const float* const* rows, int64_t row_count, int64_t count, float* results) {
  sum_of_rows(rows, row_count, count, static_cast<double>(row_count), results);
}

constexpr RowReduction kSum = {reduced_row<SumOfRow>, sums_of_rows};
constexpr RowReduction kMean = {reduced_row<MeanOfRow>, means_of_rows};
constexpr RowReduction kProduct = {reduced_row<ProductOfRow>};
constexpr RowReduction kLargest = {reduced_row<LargestOfRow>, largest_of_rows};
constexpr RowReduction kSmallest = {reduced_row<SmallestOfRow>, smallest_of_rows};
constexpr RowReduction kLogSumExp = {reduced_row<LogSumExpOfRow>};

}  // namespace

std::vector<bool> reduced_dims(const FloatNode& node, size_t rank) {
  const std::vector<int64_t> listed = node.is_absent(1) ? std::vector<int64_t>() : node.integers(1);
  std::vector<bool> reduced(rank, listed.empty());
  for (const int64_t dim : listed) reduced[node.dimension(dim, rank)] = true;
  return reduced;
}

FloatOperators float_reduction_operators() {
  return {{.op = "sum", .compute = reduced<SumOfRow>, .reduction = &kSum},
          {.op = "mean", .compute = reduced<MeanOfRow>, .reduction = &kMean},
          {.op = "prod", .compute = reduced<ProductOfRow>, .reduction = &kProduct},
          {.op = "amax", .compute = reduced<LargestOfRow>, .is_exact = true, .reduction = &kLargest},
          {.op = "amin", .compute = reduced<SmallestOfRow>, .is_exact = true, .reduction = &kSmallest},
          {.op = "logsumexp", .compute = reduced<LogSumExpOfRow>, .reduction = &kLogSumExp}};
}

}  // namespace detent
