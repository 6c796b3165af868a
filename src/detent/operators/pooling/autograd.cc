#include <limits>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool1d.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_avg_pool3d.h>
#include <ATen/ops/adaptive_max_pool1d.h>
#include <ATen/ops/adaptive_max_pool2d.h>
#include <ATen/ops/adaptive_max_pool3d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool1d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool1d_with_indices.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/max_pool3d_with_indices.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/zeros_like.h>

#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

template <size_t kDims>
struct PoolingWindow {
  explicit PoolingWindow(const Node& node)
      : kernel(integers_attribute(node, "kernel_size", kDims)),
        stride(pool_stride(node, kDims)),
        padding(integers_attribute(node, "padding", kDims)),
        ceil_mode(boolean_attribute(node, "ceil_mode")) {}
  std::vector<int64_t> kernel, stride, padding;
  bool ceil_mode;
};

template <size_t kDims>
Results evaluate_max_pool(const Evaluation& e) {
  constexpr auto kPool = kDims == 1 ? at::max_pool1d : kDims == 2 ? at::max_pool2d : at::max_pool3d;
  const PoolingWindow<kDims> w(e.node);
  return kPool(e.tensor(0), w.kernel, w.stride, w.padding, integers_attribute(e.node, "dilation", kDims),
               w.ceil_mode);
}

/// The place among all elements of each place within the padded dimensions of its channel.
at::Tensor places_of(const at::Tensor& padded_places, const at::Tensor& x, const std::vector<int64_t>& before,
                     const std::vector<int64_t>& padded_sizes, bool column_major) {
  const auto dims = static_cast<int64_t>(before.size());
  at::Tensor rest = padded_places;
  std::vector<at::Tensor> positions(before.size());
  for (size_t d = before.size(); d-- > 0;) {
    positions[d] = at::remainder(rest, padded_sizes[d]) - before[d];
    rest = at::floor_divide(rest, padded_sizes[d]);
  }
  at::Tensor places = at::zeros_like(padded_places);
  for (int64_t i = 0; i < dims; ++i) {
    const int64_t d = column_major ? dims - 1 - i : i;
    places = places * x.size(d + 2) + positions[static_cast<size_t>(d)];
  }
  std::vector<int64_t> one_each(static_cast<size_t>(x.dim()), 1);
  one_each[0] = x.size(0);
  one_each[1] = x.size(1);
  const int64_t channels = x.size(0) * x.size(1);
  const int64_t elements = x.numel() / std::max<int64_t>(channels, 1);
  return places + at::arange(channels, places.options()).reshape(one_each) * elements;
}

/// The window of an operator with a border: padding before each dimension, then after each.
struct BorderedWindow {
  explicit BorderedWindow(const Evaluation& e)
      : dims(static_cast<size_t>(e.tensor(0).dim()) - 2),
        kernel(integers_attribute(e.node, "kernel_size", dims)),
        stride(pool_stride(e.node, dims)),
        padding(integers_attribute(e.node, "padding", 2 * dims)),
        dilation(integers_attribute(e.node, "dilation", dims)),
        sizes(result_sizes(e)) {}

  /// The result's spatial sizes.
  static std::vector<int64_t> result_sizes(const Evaluation& e) {
    const Operand x{e.tensor(0).sizes().vec(), Value()};
    const Shape shape = infer_results(e.node, std::vector{x}).front().shape;
    return {shape.begin() + 2, shape.end()};
  }
  /// How many elements a dimension has up to the end of its last window.
  int64_t reach(size_t d) const { return (sizes[d] - 1) * stride[d] + dilation[d] * (kernel[d] - 1) + 1; }
  /// x with its border, cut off or continued to where the last window ends.
  at::Tensor padded(const at::Tensor& x, double value) const {
    std::vector<int64_t> borders;  // of the last dimension first
    for (size_t d = dims; d-- > 0;)
      borders.insert(borders.end(),
                     {padding[d], reach(d) - padding[d] - x.size(static_cast<int64_t>(d) + 2)});
    return at::constant_pad_nd(x, borders, value);
  }
  /// The sum of each window.
  at::Tensor sums(const at::Tensor& x) const {
    at::Tensor windows = padded(x, 0);
    std::vector<int64_t> taps;
    for (size_t d = 0; d < dims; ++d) {
      const int64_t span = dilation[d] * (kernel[d] - 1) + 1;
      windows = windows.unfold(static_cast<int64_t>(d) + 2, span, stride[d]).slice(-1, 0, span, dilation[d]);
      taps.push_back(x.dim() + static_cast<int64_t>(d));
    }
    return windows.sum(taps);
  }

  size_t dims;
  std::vector<int64_t> kernel, stride, padding, dilation, sizes;
};

Results evaluate_max_pool_with_places(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const BorderedWindow w(e);
  const at::Tensor padded = w.padded(x, -std::numeric_limits<double>::infinity());
  const auto pool = w.dims == 1   ? at::max_pool1d_with_indices
                    : w.dims == 2 ? at::max_pool2d_with_indices
                                  : at::max_pool3d_with_indices;
  const auto [values, places] = pool(padded, w.kernel, w.stride, 0, w.dilation, /*ceil_mode=*/false);
  const std::vector<int64_t> before(w.padding.begin(), w.padding.begin() + static_cast<int64_t>(w.dims));
  return Results({values, places_of(places, x, before, padded.sizes().slice(2).vec(),
                                    boolean_attribute(e.node, "column_major"))});
}

/// A mean divides by the elements of the window, with the border or without, but not by what lies beyond
/// that.
Results evaluate_mean_with_border(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  BorderedWindow w(e);
  const at::Tensor sums = w.sums(x);
  std::vector<int64_t> counted = {1, 1};
  const bool counts = boolean_attribute(e.node, "count_include_pad");
  for (size_t d = 0; d < w.dims; ++d) {
    int64_t& before = w.padding[d];
    const int64_t border = counts ? std::exchange(before, 0) + w.padding[d + w.dims] : 0;
    counted.push_back(x.size(static_cast<int64_t>(d) + 2) + border);
  }
  return sums / w.sums(at::ones(counted, x.options()));
}

Results evaluate_lp_pool(const Evaluation& e) {
  const auto p = static_cast<double>(integer_attribute(e.node, "p"));
  return BorderedWindow(e).sums(e.tensor(0).abs().pow(p)).pow(1 / p);
}

template <size_t kDims>
Results evaluate_avg_pool(const Evaluation& e) {
  const PoolingWindow<kDims> w(e.node);
  const bool count_pad = boolean_attribute(e.node, "count_include_pad");
  if constexpr (kDims == 1) {
    return at::avg_pool1d(e.tensor(0), w.kernel, w.stride, w.padding, w.ceil_mode, count_pad);
  } else {
    constexpr auto kPool = kDims == 2 ? at::avg_pool2d : at::avg_pool3d;
    return kPool(e.tensor(0), w.kernel, w.stride, w.padding, w.ceil_mode, count_pad, {});
  }
}

template <at::Tensor (*Pool)(const at::Tensor&, at::IntArrayRef), size_t kDims>
Results evaluate_adaptive_mean(const Evaluation& e) {
  return Pool(e.tensor(0), integers_attribute(e.node, "output_size", kDims));
}

template <std::tuple<at::Tensor, at::Tensor> (*Pool)(const at::Tensor&, at::IntArrayRef), size_t kDims>
Results evaluate_adaptive_max(const Evaluation& e) {
  return std::get<0>(Pool(e.tensor(0), integers_attribute(e.node, "output_size", kDims)));
}

}  // namespace

EvaluatorList pooling_evaluators() {
  return {
      {"max_pool1d", evaluate_max_pool<1>},
      {"max_pool2d", evaluate_max_pool<2>},
      {"max_pool3d", evaluate_max_pool<3>},
      {"max_pool_with_places", evaluate_max_pool_with_places},
      {"avg_pool1d", evaluate_avg_pool<1>},
      {"avg_pool2d", evaluate_avg_pool<2>},
      {"avg_pool3d", evaluate_avg_pool<3>},
      {"avg_pool_with_border", evaluate_mean_with_border},
      {"lp_pool", evaluate_lp_pool},
      {"adaptive_avg_pool1d", evaluate_adaptive_mean<at::adaptive_avg_pool1d, 1>},
      {"adaptive_avg_pool2d", evaluate_adaptive_mean<at::adaptive_avg_pool2d, 2>},
      {"adaptive_avg_pool3d", evaluate_adaptive_mean<at::adaptive_avg_pool3d, 3>},
      {"adaptive_max_pool1d", evaluate_adaptive_max<at::adaptive_max_pool1d, 1>},
      {"adaptive_max_pool2d", evaluate_adaptive_max<at::adaptive_max_pool2d, 2>},
      {"adaptive_max_pool3d", evaluate_adaptive_max<at::adaptive_max_pool3d, 3>},
  };
}

}  // namespace detent
