#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>

#include "detent/execution/evaluators/evaluator.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

Flow evaluate_linear(const Evaluation& e) {
  return at::linear(e.tensor(0), e.parameter("weight"), e.parameter("bias"));
}

template <at::Tensor (*Convolve)(const at::Tensor&, const at::Tensor&, const c10::optional<at::Tensor>&,
                                 at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t),
          size_t kDims>
Flow evaluate_convolution(const Evaluation& e) {
  return Convolve(e.tensor(0), e.parameter("weight"), e.parameter("bias"), integers_attribute(e.node, "stride", kDims),
                  integers_attribute(e.node, "padding", kDims), integers_attribute(e.node, "dilation", kDims),
                  integer_attribute(e.node, "groups"));
}

Flow evaluate_batch_norm(const Evaluation& e) {
  return at::batch_norm(e.tensor(0), e.parameter("weight"), e.parameter("bias"), e.parameter("running_mean"),
                        e.parameter("running_var"), e.training, number_attribute(e.node, "momentum"),
                        number_attribute(e.node, "eps"), /*cudnn_enabled=*/false);
}

}  // namespace

EvaluatorList layer_evaluators() {
  return {{"linear", evaluate_linear},
          {"conv1d", evaluate_convolution<at::conv1d, 1>},
          {"conv2d", evaluate_convolution<at::conv2d, 2>},
          {"batch_norm1d", evaluate_batch_norm},
          {"batch_norm2d", evaluate_batch_norm}};
}

}  // namespace detent
