#include "detent/graph/graph_parameters.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "detent/core/error.h"
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
void draw(const FanInInitial& /*initial*/, const Node& node, Tensor& parameter, const ParameterDraws& draws) {
  const Tensor& weight = node.find_parameter("weight")->tensor;
  const double fan_in = static_cast<double>(weight.numel()) / static_cast<double>(weight.dim(0));
  const bool is_weight = parameter.bytes().data() == weight.bytes().data();
  const double bound = is_weight ? weight_bound(fan_in) : 1 / std::sqrt(fan_in);
  draws.uniform(parameter, -bound, bound);
}

void draw(const ConstantInitial& initial, const Node& /*node*/, Tensor& parameter,
          const ParameterDraws& /*draws*/) {
  std::ranges::fill(parameter.values<float>(), initial.value);
}

void draw(const NormalInitial& initial, const Node& node, Tensor& parameter, const ParameterDraws& draws) {
  draws.normal(parameter, initial.deviation);
  const Value* row = node.attributes.find(initial.zero_row);
  if (row == nullptr || row->is_na()) return;
  const auto size = static_cast<size_t>(parameter.numel() / parameter.dim(0));
  const int64_t given = integer_attribute(node, initial.zero_row);
  const auto zero = static_cast<size_t>(given < 0 ? given + parameter.dim(0) : given);  // or from the end
  std::ranges::fill(parameter.values<float>().subspan(zero * size, size), 0.0F);
}

}  // namespace

void initialize_parameters(Graph& graph, const ParameterDraws& draws) {
  std::set<const Parameter*> drawn;
  for (Node& node : graph.nodes()) {
    for (const ParameterSchema& declared : find_operator(node.op).parameters) {
      Parameter* parameter = node.find_parameter(declared.name);
      if (parameter == nullptr || !drawn.insert(parameter).second) continue;  // tied: as its first node says
      if (declared.any_dtype && !parameter->trainable) continue;              // a constant
      std::visit([&](const auto& initial) { draw(initial, node, parameter->tensor, draws); },
                 declared.initial);
    }
  }
}

void initialize_parameters(Graph& graph, MersenneTwister& generator) {
  const auto uniform = [&](Tensor& tensor, double from, double to) {
    generator.fill_uniform(tensor.values<float>(), from, to);
  };
  const auto normal = [&](Tensor& tensor, double deviation) {
    generator.fill_normal(tensor.values<float>(), deviation);
  };
  initialize_parameters(graph, {uniform, normal});
}

}  // namespace detent
