#include "detent/inference/plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "detent/core/text.h"

namespace detent {
namespace {

bool gives_float(const Node& node, const ValueTypes& values) {
  for (size_t i = 0; i < result_count(node); ++i) {
    const Operand& result = values.at(value_name(node.name, i));
    if (result.is_tensor() && result.dtype == DType::kFloat32) return true;
  }
  return false;
}

bool reads_float(const NodeInput& input, const ValueTypes& values) {
  if (input.is_constant()) return false;
  const Operand& value = values.at(value_name(input));
  return value.is_tensor() && value.dtype == DType::kFloat32;
}

/// Whether an operator has a form where its operands have codes.
bool may_have_form(const Node& node) {
  const auto* pair = trait<PairOperation>(node);
  const bool divides = pair != nullptr && *pair == PairOperation::kDiv;
  const bool by_number = std::ranges::any_of(node.inputs, &NodeInput::is_constant);
  return is_weighted_sum(node) || trait<MatrixProduct>(node) != nullptr || trait<Unary>(node) != nullptr ||
         (pair != nullptr && (!divides || by_number)) || is_pooling(node, Pooling::Of::kMean);
}

std::string why_in_float(const Node& node, const ValueTypes& values) {
  if (!gives_float(node, values)) return "computes sizes or positions";
  if (node.body != nullptr) return "its body computes in float";
  if (!may_have_form(node)) return "no integer form";
  const std::optional<QuantSpec> weight = is_weighted_sum(node) ? node.rounding("weight") : std::nullopt;
  if (weight && weight->granularity == Granularity::kGroup) return "a scale a group of weights";
  bool has_codes = !is_weighted_sum(node) || weight.has_value();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (reads_float(node.inputs[i], values))
      has_codes = has_codes && executed_type(node, fmt::format("data_in_{}", i)).has_value();
  }
  if (has_codes && trait<MatrixProduct>(node) != nullptr) return "sums beyond 32 bits";
  return "not quantized";
}

class Planner {
 public:
  explicit Planner(const Graph& graph)
      : graph_(graph), values_(infer_shapes(graph)), types_(result_types(graph)) {}

  PlannedNode planned(const Node& node) const {
    const std::optional<NodeForm> form =
        graph_.requantization() ? node_form(node, *graph_.requantization()) : std::nullopt;
    PlannedNode result{.node = node.name, .op = node.op, .engine = node_engine(node, form, values_)};
    const bool in_float = result.engine == NodeEngine::kFloat;
    if (node.body != nullptr && node.body->requantization()) {
      result.engine = NodeEngine::kGiven;  // by its body
    } else if (in_float)
      result.why = why_in_float(node, values_);
    const bool takes_values = in_float || role_of(node) == OperatorRole::kOutput;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!reads_float(node.inputs[i], values_)) continue;
      const std::string operand = fmt::format("data_in_{}", i);
      const bool takes_codes = executed_type(node, operand).has_value();
      const bool comes_as_codes = types_.contains(value_name(node.inputs[i]));
      if (takes_codes && !comes_as_codes) result.quantized.push_back(operand);
      if (takes_values && (takes_codes || comes_as_codes)) result.dequantized.push_back(operand);
    }
    const bool gives_values =
        in_float || role_of(node) == OperatorRole::kInput || role_of(node) == OperatorRole::kConstant;
    for (size_t i = 0; gives_values && i < result_count(node); ++i) {
      const std::string operand = fmt::format("data_out_{}", i);
      if (executed_type(node, operand)) result.quantized.push_back(operand);
    }
    return result;
  }

 private:
  const Graph& graph_;
  ValueTypes values_;
  std::map<std::string, CodeType> types_;
};

std::string names_text(const std::vector<std::string>& names) {
  constexpr size_t kMostNamed = 4;
  if (names.size() <= kMostNamed + 1) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(std::span(names).first(kMostNamed), ", "),
                     names.size() - kMostNamed);
}

}  // namespace

NodeEngine node_engine(const Node& node, const std::optional<NodeForm>& form, const ValueTypes& values) {
  if (role_of(node) != OperatorRole::kComputes) return NodeEngine::kGiven;
  if (form || trait<TableLayer>(node) != nullptr) return NodeEngine::kCodes;
  return moves_codes(node) && gives_float(node, values) ? NodeEngine::kMoves : NodeEngine::kFloat;
}

std::vector<PlannedNode> integer_plan(const Graph& graph) {
  const Planner planner(graph);
  std::vector<PlannedNode> plan;
  for (const Node& node : graph.nodes()) plan.push_back(planner.planned(node));
  return plan;
}

std::vector<PlannedNode> integer_plan_with_bodies(const Graph& graph) {
  std::vector<PlannedNode> plan;
  const Planner planner(graph);
  for (const Node& node : graph.nodes()) {
    plan.push_back(planner.planned(node));
    if (node.body == nullptr || !node.body->requantization()) continue;
    for (PlannedNode& inner : integer_plan_with_bodies(*node.body)) {
      inner.node = fmt::format("{}.{}", node.name, inner.node);
      plan.push_back(std::move(inner));
    }
  }
  return plan;
}

std::string plan_summary(std::span<const PlannedNode> plan) {
  constexpr size_t kColumns = 80;
  std::map<NodeEngine, size_t> counts;
  size_t dequantized = 0;
  size_t quantized = 0;
  std::vector<std::pair<std::string, std::vector<std::string>>> in_float;  // by operator and reason
  for (const PlannedNode& node : plan) {
    ++counts[node.engine];
    dequantized += node.dequantized.size();
    quantized += node.quantized.size();
    if (node.engine != NodeEngine::kFloat) continue;
    const std::string group = fmt::format("{} ({})", node.op, node.why);
    auto found = std::ranges::find(in_float, group, &decltype(in_float)::value_type::first);
    if (found == in_float.end()) found = in_float.insert(in_float.end(), {group, {}});
    found->second.push_back(node.node);
  }
  std::string text = wrapped_text(
      fmt::format(
          "{} nodes compute in integers, {} move integers, {} compute in float; operands: {} quantized, "
          "{} dequantized",
          counts[NodeEngine::kCodes], counts[NodeEngine::kMoves], counts[NodeEngine::kFloat], quantized,
          dequantized),
      0, kColumns);
  for (const auto& [group, names] : in_float)
    text += wrapped_text(fmt::format("in float: {} x {}: {}", names.size(), group, names_text(names)), 2,
                         kColumns);
  return text;
}

const char* engine_text(NodeEngine engine) {
  switch (engine) {
    case NodeEngine::kGiven:
      return "";
    case NodeEngine::kCodes:
      return "integers";
    case NodeEngine::kMoves:
      return "integers, moved";
    case NodeEngine::kFloat:
      return "float";
  }
  return "";
}

TextTable plan_table(std::span<const PlannedNode> plan) {
  TextTable table({"node", "op", "computes in", "dequantized", "quantized", "why"});
  for (const PlannedNode& node : plan) {
    table.add_row({node.node, node.op, engine_text(node.engine),
                   fmt::format("{}", fmt::join(node.dequantized, " ")),
                   fmt::format("{}", fmt::join(node.quantized, " ")), node.why});
  }
  return table;
}

}  // namespace detent
