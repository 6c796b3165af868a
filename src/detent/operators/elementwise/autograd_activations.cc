#include <ATen/TensorOperators.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

template <at::Tensor (*Function)(const at::Tensor&)>
Results evaluate_unary(const Evaluation& e) {
  return Function(e.tensor(0));
}

at::Tensor relu6(const at::Tensor& x) { return at::clamp(x, 0, 6); }

Results evaluate_gelu(const Evaluation& e) {
  return at::gelu(e.tensor(0), choice_attribute(e.node, "approximate"));
}

Results evaluate_softplus(const Evaluation& e) {
  return at::softplus(e.tensor(0), number_attribute(e.node, "beta"), number_attribute(e.node, "threshold"));
}

Results evaluate_softmax(const Evaluation& e) {
  return at::softmax(e.tensor(0), integer_attribute(e.node, "dim"));
}

Results evaluate_log_softmax(const Evaluation& e) {
  return at::log_softmax(e.tensor(0), integer_attribute(e.node, "dim"));
}

Results evaluate_leaky_relu(const Evaluation& e) {
  return at::leaky_relu(e.tensor(0), number_attribute(e.node, "negative_slope"));
}

Results evaluate_hardsigmoid(const Evaluation& e) {
  const at::Tensor line = e.tensor(0) * number_attribute(e.node, "alpha") + number_attribute(e.node, "beta");
  return at::clamp(line, 0, 1);
}

}  // namespace

EvaluatorList activation_evaluators() {
  return {{"relu", evaluate_unary<at::relu>},
          {"relu6", evaluate_unary<relu6>},
          {"gelu", evaluate_gelu},
          {"leaky_relu", evaluate_leaky_relu},
          {"elu",
           [](const Evaluation& e) -> Results {
             return at::elu(e.tensor(0), number_attribute(e.node, "alpha"));
           }},
          {"celu",
           [](const Evaluation& e) -> Results {
             return at::celu(e.tensor(0), number_attribute(e.node, "alpha"));
           }},
          {"hardsigmoid", evaluate_hardsigmoid},
          {"thresholded_relu",
           [](const Evaluation& e) -> Results {
             const at::Tensor x = e.tensor(0);
             return at::where(x > number_attribute(e.node, "alpha"), x, at::zeros_like(x));
           }},
          {"softplus", evaluate_softplus},
          {"softmax", evaluate_softmax},
          {"log_softmax", evaluate_log_softmax}};
}

}  // namespace detent
