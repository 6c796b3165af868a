#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/conv_transpose1d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/conv_transpose3d.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/where.h>
#include <ATen/TensorOperators.h>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

struct Window {
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  int64_t groups;
};

Results evaluate_linear(const Evaluation& e) {
  return at::linear(e.tensor(0), e.parameter("weight"), e.parameter("bias"));
}

template <at::Tensor (*Convolve)(const at::Tensor&, const at::Tensor&, const c10::optional<at::Tensor>&,
                                 at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t),
          size_t kDims>
Results evaluate_convolution(const Evaluation& e) {
  const Window w = {integers_attribute(e.node, "stride", kDims), integers_attribute(e.node, "padding", kDims),
                    integers_attribute(e.node, "dilation", kDims), integer_attribute(e.node, "groups")};
  return Convolve(e.tensor(0), e.parameter("weight"), e.parameter("bias"), w.stride, w.padding, w.dilation,
                  w.groups);
}

template <at::Tensor (*Convolve)(const at::Tensor&, const at::Tensor&, const c10::optional<at::Tensor>&,
                                 at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t, at::IntArrayRef),
          size_t kDims>
Results evaluate_transposed_convolution(const Evaluation& e) {
  const auto integers = [&](const char* name) { return integers_attribute(e.node, name, kDims); };
  const Window w = {integers("stride"), integers("padding"), integers("dilation"),
                    integer_attribute(e.node, "groups")};
  const auto output_padding = integers("output_padding");
  return Convolve(e.tensor(0), e.parameter("weight"), e.parameter("bias"), w.stride, w.padding,
                  output_padding, w.groups, w.dilation);
}

Results evaluate_convolution_with_inputs(const Evaluation& e) {
  const auto dims = static_cast<size_t>(e.tensor(0).dim()) - 2;
  const auto integers = [&](const char* name) { return integers_attribute(e.node, name, dims); };
  const Window w = {integers("stride"), integers("padding"), integers("dilation"),
                    integer_attribute(e.node, "groups")};
  const bool transposed = boolean_attribute(e.node, "transposed");
  const at::Tensor bias = e.is_absent(2) ? at::Tensor() : e.tensor(2);
  const auto output_padding = integers("output_padding");
  return at::convolution(e.tensor(0), e.tensor(1), bias, w.stride, w.padding, w.dilation, transposed,
                         output_padding, w.groups);
}

/// Counted from the front. Tensors between nodes are float32, which holds integers up to 2^24 exactly.
at::Tensor as_indices(const Node& node, const at::Tensor& values, int64_t rows) {
  at::Tensor indices = values.to(at::kLong);
  if (!indices.eq(values).all().item<bool>()) fail("node \"{}\": input 0: an index is no integer", node.name);
  if (indices.lt(-rows).logical_or(indices.ge(rows)).any().item<bool>()) {
    fail("node \"{}\": input 0: got indices {} to {} of {} rows", node.name, indices.min().item<int64_t>(),
         indices.max().item<int64_t>(), rows);
  }
  return at::where(indices.lt(0), indices + rows, indices);
}

Results evaluate_embedding(const Evaluation& e) {
  const at::Tensor weight = e.parameter("weight");
  const int64_t rows = weight.size(0);
  int64_t padding = -1;
  if (!e.node.attributes.find("padding_idx")->is_na()) {
    padding = (integer_attribute(e.node, "padding_idx") + rows) % rows;
  }
  return at::embedding(weight, as_indices(e.node, e.tensor(0), rows), padding);
}

}  // namespace

EvaluatorList layer_evaluators() {
  return {{"linear", evaluate_linear},
          {"conv1d", evaluate_convolution<at::conv1d, 1>},
          {"conv2d", evaluate_convolution<at::conv2d, 2>},
          {"conv3d", evaluate_convolution<at::conv3d, 3>},
          {"convtranspose1d", evaluate_transposed_convolution<at::conv_transpose1d, 1>},
          {"convtranspose2d", evaluate_transposed_convolution<at::conv_transpose2d, 2>},
          {"convtranspose3d", evaluate_transposed_convolution<at::conv_transpose3d, 3>},
          {"convolution", evaluate_convolution_with_inputs},
          {"embedding", evaluate_embedding}};
}

}  // namespace detent
