#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "detent/graph/operators.h"
#include "detent/inference/resize_weights.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

at::Tensor along(const at::Tensor& list, int64_t rank, size_t dim) {
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  shape[dim] = list.numel();
  return list.reshape(shape);
}

at::Tensor interpolated(const at::Tensor& x, size_t dim, const std::vector<ResizeTaps>& taps) {
  if (taps.empty() || is_copy(taps, x.size(static_cast<int64_t>(dim))))
    return x.narrow(static_cast<int64_t>(dim), 0, static_cast<int64_t>(taps.size()));
  at::Tensor sum;
  for (size_t t = 0; t < taps.front().places.size(); ++t) {
    std::vector<int64_t> places;
    std::vector<double> weights;
    for (const ResizeTaps& of_element : taps) {
      places.push_back(of_element.places[t]);
      weights.push_back(of_element.weights[t]);
    }
    at::Tensor part = at::index_select(x, static_cast<int64_t>(dim), at::tensor(places, at::kLong));
    if (taps.front().places.size() == 1) return part;
    part = part * along(at::tensor(weights, at::kDouble).to(x.scalar_type()), x.dim(), dim);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

std::vector<double> numbers(const Evaluation& e, size_t index) {
  const at::Tensor list = e.tensor(index).to(at::kDouble).contiguous();
  return {list.data_ptr<double>(), list.data_ptr<double>() + list.numel()};
}

ResizeRequest request_of(const Evaluation& e) {
  ResizeRequest request;
  if (choice_attribute(e.node, "coordinates") == "tf_crop_and_resize") request.roi = numbers(e, 1);
  if (!e.is_absent(2)) request.scales = numbers(e, 2);
  if (!e.is_absent(3)) request.sizes = e.integers(3);
  return request;
}

/// Dimension after dimension.
Results evaluate_resize(const Evaluation& e) {
  at::Tensor x = e.tensor(0);
  const Shape shape = x.sizes().vec();
  at::Tensor outside;
  for (const ResizedAxis& axis : resized_axes(e.node, shape, request_of(e))) {
    const ResizeWeights weights(e.node, axis);
    std::vector<ResizeTaps> taps;
    std::vector<int64_t> is_outside;
    for (int64_t i = 0; i < axis.to; ++i) {
      taps.push_back(weights.at(i));
      is_outside.push_back(weights.is_outside(i) ? 1 : 0);
    }
    x = interpolated(x, axis.dim, taps);
    if (std::ranges::find(is_outside, 1) == is_outside.end()) continue;
    const at::Tensor mask = along(at::tensor(is_outside, at::kLong), x.dim(), axis.dim).to(at::kBool);
    outside = outside.defined() ? outside.logical_or(mask) : mask;
  }
  if (!outside.defined()) return x;
  return at::where(outside, at::full({}, number_attribute(e.node, "extrapolation_value"), x.options()), x);
}

}  // namespace

EvaluatorList resize_evaluators() { return {{"resize", evaluate_resize}}; }

}  // namespace detent
