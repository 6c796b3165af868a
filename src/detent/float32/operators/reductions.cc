#include <algorithm>
#include <cmath>
#include <numeric>

#include "detent/core/parallel.h"
#include "detent/float32/float_node.h"
#include "detent/float32/result_tensor.h"
#include "detent/float32/row_sums.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/integer/element_movement.h"
#include "detent/integer/pooling.h"

namespace detent {
namespace {

/// Whether each dimension is reduced: those that input 1 lists, or all.
std::vector<bool> reduced_dims(const FloatNode& n) {
  const auto rank = static_cast<size_t>(n.tensor(0).rank());
  const std::vector<int64_t> listed = n.is_absent(1) ? std::vector<int64_t>() : n.integers(1);
  std::vector<bool> reduced(rank, listed.empty());
  for (const int64_t dim : listed) {
    const int64_t from_front = dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
    if (from_front < 0 || from_front >= static_cast<int64_t>(rank))
      fail("node \"{}\" ({}): dimension {} of {}", n.node.name, n.node.op, dim, rank);
    reduced[static_cast<size_t>(from_front)] = true;
  }
  return reduced;
}

/// A value for each row of the elements that become one, in row-major order of their dimensions.
template <class Reduce>
Tensor reduced(const FloatNode& n, Reduce reduce) {
  const Tensor& x = n.tensor(0);
  const std::vector<bool> is_reduced = reduced_dims(n);
  const StridedView all = StridedView::of(x.shape());
  StridedView rows;
  Shape result_shape;
  int64_t length = 1;
  for (const bool wanted : {false, true}) {
    for (size_t d = 0; d < is_reduced.size(); ++d) {
      if (is_reduced[d] != wanted) continue;
      rows.shape.push_back(all.shape[d]);
      rows.strides.push_back(all.strides[d]);
      if (wanted) length *= all.shape[d];
    }
  }
  for (size_t d = 0; d < is_reduced.size(); ++d) {
    if (!is_reduced[d]) result_shape.push_back(all.shape[d]);
    if (is_reduced[d] && boolean_attribute(n.node, "keepdim")) result_shape.push_back(1);
  }
  const bool in_order = std::ranges::is_sorted(is_reduced);
  const Tensor ordered = in_order ? x : gathered(x, rows);
  Tensor result = result_tensor(result_shape);
  const auto values = ordered.values<float>();
  const auto to = result.values<float>();
  constexpr int64_t kGrain = 8192;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(length, 1));
  parallel_for(result.numel(), grain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const auto count = static_cast<size_t>(length);
      to[i] = reduce(values.subspan(i * count, count));
    }
  });
  return result;
}

Tensor sum(const FloatNode& n) {
  return reduced(n, [](std::span<const float> row) { return static_cast<float>(row_sum(row)); });
}

Tensor mean(const FloatNode& n) {
  return reduced(n, [](std::span<const float> row) {
    return static_cast<float>(row_sum(row) / static_cast<double>(row.size()));
  });
}

Tensor largest(const FloatNode& n) {
  return reduced(n, [](std::span<const float> row) {
    float most = -HUGE_VALF;
    for (const float x : row) most = x > most || std::isnan(x) ? x : most;
    return most;
  });
}

Tensor smallest(const FloatNode& n) {
  return reduced(n, [](std::span<const float> row) {
    float least = HUGE_VALF;
    for (const float x : row) least = x < least || std::isnan(x) ? x : least;
    return least;
  });
}

Tensor pooled(const FloatNode& n) {
  return is_pooling(n.node, Pooling::Of::kMean) ? average_pool(n.node, n.tensor(0))
                                                : max_pool(n.node, n.tensor(0));
}

}  // namespace

FloatOperators float_reduction_operators() {
  return {{"sum", sum},
          {"mean", mean},
          {"amax", largest, true},
          {"amin", smallest, true},
          {"avg_pool1d", pooled},
          {"avg_pool2d", pooled},
          {"avg_pool3d", pooled},
          {"adaptive_avg_pool1d", pooled},
          {"adaptive_avg_pool2d", pooled},
          {"adaptive_avg_pool3d", pooled}};
}

}  // namespace detent
