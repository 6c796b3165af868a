#include <algorithm>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"
#include "detent/inference/resize_weights.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

ResizeRequest request_of(const FloatNode& n) {
  ResizeRequest request;
  if (choice_attribute(n.node, "coordinates") == "tf_crop_and_resize") request.roi = n.numbers(1);
  if (!n.is_absent(2)) request.scales = n.numbers(2);
  if (!n.is_absent(3)) request.sizes = n.integers(3);
  return request;
}

/// Products and sums are rounded one by one, in the order of the taps.
void interpolate_line(const float* from, const ResizeTaps& taps, int64_t inner, float* to) {
  const auto tap = [&](size_t t) { return from + taps.places[t] * inner; };
  if (taps.places.size() == 1) {
    std::copy_n(tap(0), inner, to);
    return;
  }
  for (size_t t = 0; t < taps.places.size(); ++t) {
    const float* const x = tap(t);
    const auto weight = static_cast<float>(taps.weights[t]);
    for (int64_t i = 0; i < inner; ++i) to[i] = t == 0 ? x[i] * weight : to[i] + x[i] * weight;
  }
}

Tensor interpolated(const Tensor& x, const ResampledAxis& axis) {
  const auto dim = static_cast<std::ptrdiff_t>(axis.dim);
  const int64_t length = x.dim(static_cast<int64_t>(axis.dim));
  const auto to_length = std::ssize(axis.taps);
  const int64_t outer = element_count({x.shape().begin(), x.shape().begin() + dim});
  const int64_t inner = element_count({x.shape().begin() + dim + 1, x.shape().end()});
  Shape shape = x.shape();
  shape[axis.dim] = to_length;
  Tensor result = result_tensor(shape);
  const float* const from = x.values<float>().data();
  float* const to = result.values<float>().data();
  constexpr int64_t kGrain = 8192;
  parallel_for(outer * to_length, std::max<int64_t>(1, kGrain / std::max<int64_t>(inner, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t line = begin; line < end; ++line)
                   interpolate_line(from + line / to_length * length * inner,
                                    axis.taps[static_cast<size_t>(line % to_length)], inner,
                                    to + line * inner);
               });
  return result;
}

/// Elements at `outside` of a dimension become `value`.
void extrapolate(const ResizedAxis& axis, const std::vector<bool>& outside, float value, Tensor& x) {
  const auto dim = static_cast<std::ptrdiff_t>(axis.dim);
  const int64_t inner = element_count({x.shape().begin() + dim + 1, x.shape().end()});
  const auto values = x.values<float>();
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    if (outside[static_cast<size_t>(i / inner % axis.to)]) values[static_cast<size_t>(i)] = value;
  }
}

/// Mode nearest, which moves elements of any type.
Tensor nearest(const FloatNode& n) {
  Tensor x = n.operand(0);
  const auto value = std::vector{number_attribute(n.node, "extrapolation_value")};
  const Tensor otherwise = to_dtype(Tensor::from<double>({}, value), x.dtype());
  for (const ResizedAxis& axis : resized_axes(n.node, x.shape(), request_of(n))) {
    const ResizeWeights weights(n.node, axis);
    std::vector<int64_t> places;
    for (int64_t i = 0; i < axis.to; ++i)
      places.push_back(weights.is_outside(i) ? -1 : weights.at(i).places.front());
    x = selected_positions(x, axis.dim, places, otherwise);
  }
  return x;
}

/// The dimensions that change, in their order.
std::vector<ResampledAxis> resampled_axes(const Node& node, const std::vector<ResizedAxis>& axes) {
  std::vector<ResampledAxis> resampled;
  for (const ResizedAxis& axis : axes) {
    const ResizeWeights weights(node, axis);
    std::vector<ResizeTaps> taps;
    for (int64_t i = 0; i < axis.to; ++i) taps.push_back(weights.at(i));
    if (!is_copy(taps, axis.from)) resampled.push_back({axis.dim, std::move(taps)});
  }
  return resampled;
}

/// For each dimension, the places that stand for some outside of the input.
std::vector<std::vector<bool>> places_outside(const Node& node, const std::vector<ResizedAxis>& axes) {
  std::vector<std::vector<bool>> outside;
  for (const ResizedAxis& axis : axes) {
    const ResizeWeights weights(node, axis);
    outside.emplace_back();
    for (int64_t i = 0; i < axis.to; ++i) outside.back().push_back(weights.is_outside(i));
  }
  return outside;
}

/// nullopt where an element is what `extrapolation_value` says.
std::optional<std::vector<ResampledAxis>> resampling(const FloatNode& n, const Shape& input) {
  const std::vector<ResizedAxis> axes = resized_axes(n.node, input, request_of(n));
  for (const std::vector<bool>& outside : places_outside(n.node, axes)) {
    if (std::ranges::find(outside, true) != outside.end()) return std::nullopt;
  }
  std::vector<ResampledAxis> resampled = resampled_axes(n.node, axes);
  if (!std::ranges::is_sorted(resampled, {}, &ResampledAxis::dim)) return std::nullopt;
  return resampled;
}

/// Dimension after dimension; what lies outside in any of them comes last.
Tensor resize(const FloatNode& n) {
  if (n.operand(0).dtype() != DType::kFloat32) return nearest(n);
  Tensor x = n.tensor(0);
  const std::vector<ResizedAxis> axes = resized_axes(n.node, x.shape(), request_of(n));
  const std::vector<std::vector<bool>> outside = places_outside(n.node, axes);
  for (const ResampledAxis& axis : resampled_axes(n.node, axes)) x = interpolated(x, axis);
  const auto value = static_cast<float>(number_attribute(n.node, "extrapolation_value"));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (std::ranges::find(outside[i], true) == outside[i].end()) continue;
    x = x.clone();
    extrapolate(axes[i], outside[i], value, x);
  }
  return x;
}

}  // namespace

FloatOperators float_resize_operators() {
  return {{.op = "resize", .compute = resize, .is_exact = true, .resampled = resampling}};
}

}  // namespace detent
