#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool1d.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_avg_pool3d.h>
#include <ATen/ops/adaptive_max_pool1d.h>
#include <ATen/ops/adaptive_max_pool2d.h>
#include <ATen/ops/adaptive_max_pool3d.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool1d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool1d_with_indices.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/max_pool3d_with_indices.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include "detent/core/error.h"
#include "detent/execution/evaluators/evaluator.h"
#include "detent/execution/max_pooling.h"
#include "detent/execution/torch_tensor.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

at::Tensor sub(const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Results evaluate_pair(const Evaluation& e) {
  return Function(e.as_tensor(0), e.as_tensor(1));
}

Results evaluate_add(const Evaluation& e) {
  const auto takes = [&](size_t to, size_t from) {
    if (!e.may_overwrite(to) || !std::holds_alternative<at::Tensor>(e.inputs[from])) return false;
    return e.tensor(to).sizes() == e.tensor(from).sizes() &&
           e.tensor(to).scalar_type() == e.tensor(from).scalar_type();
  };
  if (takes(0, 1)) return e.tensor(0).add_(e.tensor(1));
  if (takes(1, 0)) return e.tensor(1).add_(e.tensor(0));
  return at::add(e.as_tensor(0), e.as_tensor(1));
}

template <at::Tensor (*Product)(const at::Tensor&, const at::Tensor&)>
Results evaluate_matrix_product(const Evaluation& e) {
  return Product(e.tensor(0), e.tensor(1));
}

Results evaluate_clamp(const Evaluation& e) {
  at::Tensor result = e.tensor(0);
  if (!e.is_absent(1)) result = at::maximum(result, e.as_tensor(1));
  if (!e.is_absent(2)) result = at::minimum(result, e.as_tensor(2));
  return result;
}

Results evaluate_inference_dropout(const Evaluation& e) {
  const auto is_zero = [&](size_t index) { return e.as_tensor(index).eq(0).all().item<bool>(); };
  if (!is_zero(1) && !is_zero(2))
    fail("node \"{}\": inputs 1 and 2 ask to drop elements at random, as in training", e.node.name);
  return Results({e.tensor(0), at::ones(e.tensor(0).sizes(), at::kBool)});
}

Results evaluate_cast(const Evaluation& e) {
  return e.tensor(0).to(scalar_type(dtype_of_name(choice_attribute(e.node, "dtype"))));
}

template <size_t kDims>
struct Window {
  explicit Window(const Node& node)
      : kernel(integers_attribute(node, "kernel_size", kDims)),
        stride(pool_stride(node, kDims)),
        padding(integers_attribute(node, "padding", kDims)),
        ceil_mode(boolean_attribute(node, "ceil_mode")) {}
  std::vector<int64_t> kernel, stride, padding;
  bool ceil_mode;
};

template <size_t kDims>
Results evaluate_max_pool(const Evaluation& e) {
  if constexpr (kDims == 2) {
    if (!e.training && is_plain_image(e.tensor(0))) return max_pool2d(e.node, e.tensor(0));
  }
  constexpr auto kPool = kDims == 1 ? at::max_pool1d : kDims == 2 ? at::max_pool2d : at::max_pool3d;
  const Window<kDims> w(e.node);
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

Results evaluate_max_pool_with_places(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const auto dims = static_cast<size_t>(x.dim()) - 2;
  const auto kernel = integers_attribute(e.node, "kernel_size", dims);
  const auto stride = pool_stride(e.node, dims);
  const auto padding = integers_attribute(e.node, "padding", 2 * dims);
  const auto dilation = integers_attribute(e.node, "dilation", dims);
  const bool ceil_mode = boolean_attribute(e.node, "ceil_mode");
  std::vector<int64_t> borders;  // of the last dimension first
  for (size_t d = dims; d-- > 0;) borders.insert(borders.end(), {padding[d], padding[d + dims]});
  const at::Tensor padded = at::constant_pad_nd(x, borders, -std::numeric_limits<double>::infinity());
  const auto pool = dims == 1   ? at::max_pool1d_with_indices
                    : dims == 2 ? at::max_pool2d_with_indices
                                : at::max_pool3d_with_indices;
  const auto [values, places] = pool(padded, kernel, stride, 0, dilation, ceil_mode);
  return Results(
      {values, places_of(places, x, {padding.begin(), padding.begin() + static_cast<int64_t>(dims)},
                         padded.sizes().slice(2).vec(), boolean_attribute(e.node, "column_major"))});
}

template <size_t kDims>
Results evaluate_avg_pool(const Evaluation& e) {
  const Window<kDims> w(e.node);
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

EvaluatorList function_evaluators() {
  return {
      {"dropout",
       [](const Evaluation& e) -> Results {
         return at::dropout(e.tensor(0), number_attribute(e.node, "p"), e.training);
       }},
      {"inference_dropout", evaluate_inference_dropout},
      {"identity", [](const Evaluation& e) -> Results { return e.inputs[0]; }},
      {"get_attr", [](const Evaluation& e) -> Results { return e.parameter("value"); }},
      {"output", [](const Evaluation& e) -> Results { return e.inputs[0]; }},
      {"cast", evaluate_cast},
      {"clamp", evaluate_clamp},
      {"add", evaluate_add},
      {"sub", evaluate_pair<sub>},
      {"mul", evaluate_pair<at::mul>},
      {"matmul", evaluate_matrix_product<at::matmul>},
      {"einsum",
       [](const Evaluation& e) -> Results {
         std::vector<at::Tensor> tensors;
         for (size_t i = 0; i < e.inputs.size(); ++i) tensors.push_back(e.tensor(i));
         return at::einsum(text_attribute(e.node, "equation"), tensors);
       }},
      {"bmm", evaluate_matrix_product<at::bmm>},
      {"max_pool1d", evaluate_max_pool<1>},
      {"max_pool2d", evaluate_max_pool<2>},
      {"max_pool3d", evaluate_max_pool<3>},
      {"max_pool_with_places", evaluate_max_pool_with_places},
      {"avg_pool1d", evaluate_avg_pool<1>},
      {"avg_pool2d", evaluate_avg_pool<2>},
      {"avg_pool3d", evaluate_avg_pool<3>},
      {"adaptive_avg_pool1d", evaluate_adaptive_mean<at::adaptive_avg_pool1d, 1>},
      {"adaptive_avg_pool2d", evaluate_adaptive_mean<at::adaptive_avg_pool2d, 2>},
      {"adaptive_avg_pool3d", evaluate_adaptive_mean<at::adaptive_avg_pool3d, 3>},
      {"adaptive_max_pool1d", evaluate_adaptive_max<at::adaptive_max_pool1d, 1>},
      {"adaptive_max_pool2d", evaluate_adaptive_max<at::adaptive_max_pool2d, 2>},
      {"adaptive_max_pool3d", evaluate_adaptive_max<at::adaptive_max_pool3d, 3>},
  };
}

}  // namespace detent
