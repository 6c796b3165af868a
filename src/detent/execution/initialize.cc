#include "detent/execution/initialize.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/execution/torch_tensor.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

/// The bound for weights is computed in the steps that PyTorch takes, so that it rounds alike.
double weight_bound(double fan_in) {
  const double negative_slope = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1 + negative_slope * negative_slope));
  return std::sqrt(3.0) * (gain / std::sqrt(fan_in));
}

void fill(Parameter& parameter, float value) { std::ranges::fill(parameter.tensor.values<float>(), value); }

/// PyTorch's fan_in is weight.size(1) times the window, for transposed convolutions too, whose weight has the
/// inputs first: so it is elements / weight.size(0) for every layer.
void initialize_layer(Node& node) {
  Tensor& weight = node.find_parameter("weight")->tensor;
  const double fan_in = static_cast<double>(weight.numel()) / static_cast<double>(weight.dim(0));
  const double bound = weight_bound(fan_in);
  to_torch(weight).uniform_(-bound, bound);
  if (Parameter* bias = node.find_parameter("bias")) {
    const double bias_bound = 1 / std::sqrt(fan_in);
    to_torch(bias->tensor).uniform_(-bias_bound, bias_bound);
  }
}

void initialize_embedding(Node& node) {
  Tensor& weight = node.find_parameter("weight")->tensor;
  to_torch(weight).normal_();
  if (node.attributes.find("padding_idx")->is_na()) return;
  to_torch(weight).select(0, integer_attribute(node, "padding_idx")).zero_();
}

/// Of tokens and position embeddings, as vision transformers begin (Dosovitskiy et al. 2020,
/// arXiv:2010.11929).
constexpr double kTokenStd = 0.02;

void initialize_constants(Node& node, const OperatorSchema& schema) {
  for (const ParameterSchema& declared : schema.parameters) {
    if (Parameter* parameter = node.find_parameter(declared.name)) fill(*parameter, declared.initial.value());
  }
}

}  // namespace

void seed_everything(uint64_t seed) { at::manual_seed(seed); }

void initialize_parameters(Graph& graph) {
  for (Node& node : graph.nodes()) {
    const OperatorSchema& schema = find_operator(node.op);
    if (schema.parameters.empty()) continue;
    if (schema.parameters.front().initial) {
      initialize_constants(node, schema);
    } else if (node.op == "embedding") {
      initialize_embedding(node);
    } else if (node.op == "get_attr") {
      to_torch(node.find_parameter("value")->tensor).normal_(0, kTokenStd);
    } else {
      initialize_layer(node);
    }
  }
}

}  // namespace detent
