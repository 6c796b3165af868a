#include <algorithm>
#include <cmath>

#include "detent/core/element_types.h"
#include "detent/core/parallel.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/functions.h"
#include "detent/kernels/window_places.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/windows.h"

namespace detent {
namespace {

Tensor pooled(const FloatNode& n) {
  return is_pooling(n.node, Pooling::Of::kMean) ? average_pool(n.node, n.tensor(0))
                                                : max_pool(n.node, n.tensor(0));
}

/// The place in column-major order of one in row-major order.
int64_t column_major(int64_t place, const Shape& sizes) {
  int64_t result = 0;
  for (size_t d = sizes.size(); d-- > 0; place /= sizes[d]) result = result * sizes[d] + place % sizes[d];
  return result;
}

/// The border before each dimension, then that after each.
std::vector<int64_t> borders_of(const FloatNode& n, size_t dims) {
  return integers_attribute(n.node, "padding", 2 * dims);
}

/// The windows of an operator with a border, of a result of this shape.
WindowPlaces windows_of(const FloatNode& n, const Shape& result) {
  const Shape& x = n.tensor(0).shape();
  const size_t dims = result.size() - 2;
  const std::vector<int64_t> borders = borders_of(n, dims);  // no window needs to know those after
  return {{result.begin() + 2, result.end()},
          {x.begin() + 2, x.end()},
          integers_attribute(n.node, "kernel_size", dims),
          pool_stride(n.node, dims),
          {borders.begin(), borders.begin() + static_cast<int64_t>(dims)},
          integers_attribute(n.node, "dilation", dims)};
}

/// visit(first, end) of a few channels at a time: to find what windows cover takes longer than to read it.
template <class Visit>
void for_channels(int64_t channels, Visit visit) {
  constexpr int64_t kAtOnce = 8;
  parallel_for((channels + kAtOnce - 1) / kAtOnce, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      visit(block * kAtOnce, std::min(channels, (block + 1) * kAtOnce));
  });
}

/// The largest element of each window and its place. A window's elements are visited in row-major order; of
/// equal ones the first is taken, of NaNs the last.
std::vector<Tensor> pooled_with_places(const FloatNode& n) {
  const Tensor& x = n.tensor(0);
  const Shape shape = n.inferred().front().shape;
  const WindowPlaces over = windows_of(n, shape);
  const bool by_columns = boolean_attribute(n.node, "column_major");
  const int64_t windows = element_count(over.windows);
  const int64_t positions = element_count(over.places);
  Tensor values(DType::kFloat32, shape);
  Tensor places(DType::kInt64, shape);
  const float* const from = words_of<float>(x);
  float* const largest = words_of<float>(values);
  int64_t* const place_of = words_of<int64_t>(places);
  for_channels(shape[0] * shape[1], [&](int64_t first, int64_t end) {
    std::fill(place_of + first * windows, place_of + end * windows, -1);
    over.for_each([&](int64_t window, int64_t /*tap*/, int64_t place) {
      for (int64_t channel = first; channel < end; ++channel) {
        const float value = from[channel * positions + place];
        const int64_t at = channel * windows + window;
        if (place_of[at] >= 0 && !(value > largest[at] || std::isnan(value))) continue;
        largest[at] = value;
        place_of[at] = place;
      }
    });
    for (int64_t i = first * windows; i < end * windows; ++i) {
      const int64_t place = by_columns ? column_major(place_of[i], over.places) : place_of[i];
      place_of[i] = i / windows * positions + place;
    }
  });
  return {values, places};
}

/// The sum of each window's elements, in double and in row-major order.
Tensor window_sums(const Tensor& x, const WindowPlaces& over, const Shape& shape) {
  const int64_t windows = element_count(over.windows);
  const int64_t positions = element_count(over.places);
  Tensor result(DType::kFloat32, shape);
  const float* const from = words_of<float>(x);
  for_channels(shape[0] * shape[1], [&](int64_t first, int64_t end) {
    std::vector<double> sums(static_cast<size_t>((end - first) * windows));
    over.for_each([&](int64_t window, int64_t /*tap*/, int64_t place) {
      for (int64_t channel = first; channel < end; ++channel) {
        sums[static_cast<size_t>((channel - first) * windows + window)] +=
            static_cast<double>(from[channel * positions + place]);
      }
    });
    std::ranges::transform(sums, words_of<float>(result) + first * windows,
                           [](double sum) { return static_cast<float>(sum); });
  });
  return result;
}

/// Each element to the power of `exponent`.
Tensor powered(Tensor values, float exponent) {
  if (exponent != 1) apply_power(values.values<float>(), std::span(&exponent, 1), values.values<float>());
  return values;
}

Tensor norms(const FloatNode& n) {
  const Shape shape = n.inferred().front().shape;
  const auto p = static_cast<float>(integer_attribute(n.node, "p"));
  Tensor magnitudes = n.tensor(0).clone();
  for (float& x : magnitudes.values<float>()) x = std::fabs(x);
  return powered(window_sums(powered(std::move(magnitudes), p), windows_of(n, shape), shape), 1 / p);
}

}  // namespace

FloatOperators float_pooling_operators() {
  FloatOperators operators = {
      {.op = "max_pool_with_places", .compute = nullptr, .compute_all = pooled_with_places},
      {"lp_pool", norms}};
  for (const OperatorSchema& schema : all_operators()) {
    const auto* const pooling = std::get_if<Pooling>(&schema.trait);
    if (pooling == nullptr) continue;
    operators.push_back({schema.name, pooled, /*is_exact=*/pooling->of == Pooling::Of::kLargest});
  }
  return operators;
}

}  // namespace detent
