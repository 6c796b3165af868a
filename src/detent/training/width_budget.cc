#include "detent/training/width_budget.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Places of the result at which each weight takes part in a product, a sample.
double uses_of(const Node& node, const ValueTypes& results) {
  const Tensor& weight = node.find_parameter("weight")->tensor;
  const Shape& result = results.at(node.name).shape;
  const auto channels =
      static_cast<double>(weight.dim(find_operator(node.op).weight_channel_dim.value_or(0)));
  return std::max(static_cast<double>(element_count(result)) / channels, 1.0);
}

}  // namespace

WidthBudget::WidthBudget(const Graph& graph, const Interpreter& interpreter, const TrainingOptions& options)
    : budget_(options.width_budget), penalty_(options.width_penalty) {
  if (!budget_) return;
  std::unordered_map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : interpreter.named_trainable_parameters()) tensors.emplace(name, tensor);
  const ValueTypes results = infer_shapes(graph);
  double elements = 0;
  for (const Node& node : graph.nodes()) {
    const auto found = tensors.find(node.parameter_key("weight_width"));
    if (found == tensors.end() || node.find_parameter("weight") == nullptr) continue;
    const auto count = static_cast<double>(node.find_parameter("weight")->tensor.numel());
    const bool counts_products = options.width_unit == WidthUnit::kMacBits;
    widths_.push_back({found->second, counts_products ? count * uses_of(node, results) : count});
    elements += count;
  }
  if (widths_.empty()) fail("width_budget: no quantizer of graph \"{}\" learns its width", graph.name());
  constexpr double kByteBits = 8;
  for (Width& width : widths_) {
    if (options.width_unit == WidthUnit::kAverageBits) width.price /= elements;
    if (options.width_unit == WidthUnit::kBytes) width.price /= kByteBits;
  }
}

at::Tensor WidthBudget::penalty() const {
  if (!budget_) return {};
  at::Tensor cost;
  for (const auto& [bits, price] : widths_) {
    const at::Tensor term = bits.mul(price / *budget_);
    cost = cost.defined() ? cost.add(term) : term;
  }
  return cost.sub(1).clamp_min(0).mul(penalty_);
}

double WidthBudget::cost() const {
  double cost = 0;
  for (const auto& [bits, price] : widths_) cost += std::nearbyint(bits.item<double>()) * price;
  return cost;
}

}  // namespace detent
