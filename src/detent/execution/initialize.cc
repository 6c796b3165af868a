#include "detent/execution/initialize.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <set>

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

/// PyTorch's fan_in is weight.size(1) times the window, for transposed convolutions too, whose weight has the
/// inputs first: so it is elements / weight.size(0) for every layer.
void draw(const FanInInitial& /*initial*/, const Node& node, Tensor& parameter) {
  const Tensor& weight = node.find_parameter("weight")->tensor;
  const double fan_in = static_cast<double>(weight.numel()) / static_cast<double>(weight.dim(0));
  const bool is_weight = parameter.bytes().data() == weight.bytes().data();
  const double bound = is_weight ? weight_bound(fan_in) : 1 / std::sqrt(fan_in);
  to_torch(parameter).uniform_(-bound, bound);
}

void draw(const ConstantInitial& initial, const Node& /*node*/, Tensor& parameter) {
  std::ranges::fill(parameter.values<float>(), initial.value);
}

void draw(const NormalInitial& initial, const Node& node, Tensor& parameter) {
  to_torch(parameter).normal_(0, initial.deviation);
  const Value* row = node.attributes.find(initial.zero_row);
  if (row == nullptr || row->is_na()) return;
  to_torch(parameter).select(0, integer_attribute(node, initial.zero_row)).zero_();
}

}  // namespace

void seed_everything(uint64_t seed) { at::manual_seed(seed); }

void initialize_parameters(Graph& graph) {
  std::set<const Parameter*> drawn;
  for (Node& node : graph.nodes()) {
    for (const ParameterSchema& declared : find_operator(node.op).parameters) {
      Parameter* parameter = node.find_parameter(declared.name);
      if (parameter == nullptr || !drawn.insert(parameter).second) continue;  // tied: as its first node says
      if (declared.any_dtype && !parameter->trainable) continue;              // a constant
      std::visit([&](const auto& initial) { draw(initial, node, parameter->tensor); }, declared.initial);
    }
  }
}

}  // namespace detent
