#include "detent/search/costs.h"

#include <cmath>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/passes/analysis/network_cost.h"

namespace detent {
namespace {

constexpr double kBitsOfFloat = 32;

/// Products that the node takes for a sample; 0 where it has no weights.
double products_of(const Node& node, const ValueTypes& values) {
  if (!is_weighted_sum(node)) return 0;
  const auto outputs = static_cast<double>(WeightChannels(node).outputs());
  const auto weights = static_cast<double>(node.find_parameter("weight")->tensor.numel());
  return static_cast<double>(element_count(values.at(value_name(node.name)).shape)) * weights / outputs;
}

}  // namespace

double Costs::value(CostKind kind) const {
  switch (kind) {
    case CostKind::kBytes:
      return static_cast<double>(bytes);
    case CostKind::kWeightBits:
      return weight_bits;
    case CostKind::kMacBits:
      return mac_bits;
    case CostKind::kLatency:
      return latency.value_or(HUGE_VAL);
  }
  return 0;
}

CostModel::CostModel(const Graph& network, const SearchSpace& space) : space_(space) {
  const ValueTypes values = infer_shapes(network);
  const StorageBits stored = storage_bits(network);
  weight_values_ = stored.weight_values;
  double other = static_cast<double>(stored.weight_bits);
  for (const Choice& choice : space.choices) {
    const Node& node = network.nodes()[choice.node];
    products_.push_back(products_of(node, values));
    if (choice.operand != kWeightOperand) continue;
    other -= kBitsOfFloat * static_cast<double>(node.find_parameter(weight_parameter(node))->tensor.numel());
  }
  other_bits_ = std::llround(other);
}

double CostModel::element_bits(size_t choice, int format) const {
  const ChoiceFormat& taken = space_.choices[choice].formats[static_cast<size_t>(format)];
  if (!taken.spec) return kBitsOfFloat;
  constexpr int64_t kMany = 4096;  // so that what is stored once does not count
  QuantSpec spec = *taken.spec;
  if (spec.granularity == Granularity::kChannel) {
    spec.granularity = Granularity::kTensor;
    spec.axis = QuantSpec().axis;
  }
  return std::round(static_cast<double>(storage_bits(spec, {1, kMany})) / kMany * 8) / 8;
}

int64_t CostModel::node_cost(CostKind kind, const std::vector<size_t>& choices,
                             const std::vector<int>& formats) const {
  const bool multiplies = kind == CostKind::kMacBits || kind == CostKind::kLatency;
  double bits = 0;
  double product = 1;
  double factors[2] = {kBitsOfFloat, kBitsOfFloat};
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = space_.choices[choices[i]];
    const bool is_weight = choice.operand == kWeightOperand;
    if (is_weight) bits += static_cast<double>(choice.formats[static_cast<size_t>(formats[i])].bits);
    factors[is_weight ? 0 : 1] = element_bits(choices[i], formats[i]);
    product = products_[choices[i]];
  }
  return std::llround(multiplies ? product * factors[0] * factors[1] : bits);
}

Costs CostModel::costs(const Assignment& assignment) const {
  Costs costs;
  double bits = static_cast<double>(other_bits_);
  for (size_t i = 0; i < assignment.size();) {
    const bool both = i + 1 < assignment.size() && space_.choices[i + 1].node == space_.choices[i].node;
    std::vector<size_t> choices = {i};
    std::vector<int> formats = {assignment[i]};
    if (both) {
      choices.push_back(i + 1);
      formats.push_back(assignment[i + 1]);
    }
    bits += static_cast<double>(node_cost(CostKind::kWeightBits, choices, formats));
    costs.mac_bits += static_cast<double>(node_cost(CostKind::kMacBits, choices, formats));
    i += choices.size();
  }
  costs.bytes = static_cast<int64_t>(std::ceil(bits / 8));
  costs.weight_bits = weight_values_ == 0 ? 0 : bits / static_cast<double>(weight_values_);
  return costs;
}

double CostModel::value(const Assignment& assignment, CostKind kind) const {
  return costs(assignment).value(kind == CostKind::kLatency ? CostKind::kMacBits : kind);
}

}  // namespace detent
