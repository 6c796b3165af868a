#include "detent/inference/rounding_nodes.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/graph/folded_norm.h"
#include "detent/graph/operators.h"
#include "detent/graph/owned_parameters.h"
#include "detent/inference/code_type.h"
#include "detent/inference/node_form.h"

namespace detent {
namespace {

bool is_of_values(std::string_view operand) { return operand.starts_with("data_"); }

/// Whether rounding twice gives the same as rounding once.
bool is_idempotent(const FormatRounding& rounding) {
  return rounding.spec && repeats_exactly(rounding.spec->format);
}

bool has_codes(const Graph& graph, const Node& node, const std::string& operand) {
  return graph.requantization() && executed_type(node, operand).has_value();
}

/// Whether values of any node are rounded without codes.
bool rounds_values(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
    return std::ranges::any_of(node.quantization, [&](const auto& entry) {
      return is_of_values(entry.first) && !has_codes(graph, node, entry.first);
    });
  });
}

class RoundingNodes {
 public:
  explicit RoundingNodes(const Graph& graph) : graph_(graph), result_{Graph(graph.name()), {}} {
    result_.graph.set_requantization(graph.requantization());
  }

  RoundedGraph rewritten() {
    for (const Node& node : graph_.nodes()) add(node);
    return std::move(result_);
  }

 private:
  /// nullopt where the operand has codes, or no quantizer.
  std::optional<FormatRounding> rounding_of(const Node& node, const std::string& operand) const {
    const auto found = node.quantization.find(operand);
    if (found == node.quantization.end() || has_codes(graph_, node, operand)) return std::nullopt;
    const uint64_t seed = std::hash<std::string_view>{}(node.name) ^ std::hash<std::string_view>{}(operand);
    FormatRounding rounding{found->second, node.rounding(operand), seed};
    if (!rounding.spec) owned_scale(*rounding.quantizer);  // refuses one that cannot be used
    return rounding;
  }

  void add(const Node& node) {
    Node copy = node;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      NodeInput& input = copy.inputs[i];
      if (input.is_constant()) continue;
      const std::string operand = fmt::format("data_in_{}", i);
      const auto rounding = rounding_of(node, operand);
      const bool is_rounded = rounding && is_idempotent(*rounding) && is_rounded_alike(input, *rounding);
      if (const auto rounded = rounded_.find(value_name(input)); rounded != rounded_.end())
        input = rounded->second;
      if (rounding && !is_rounded && is_float(node.inputs[i]))
        input = add_rounding(node, operand, input, *rounding);
    }
    const size_t results = role_of(node) == OperatorRole::kOutput ? 0 : result_count(node);
    std::vector<std::pair<size_t, FormatRounding>> of_results;
    for (size_t i = 0; i < results; ++i) {
      const std::string operand = fmt::format("data_out_{}", i);
      std::optional<FormatRounding> rounding = rounding_of(node, operand);
      if (!rounding) continue;
      if (is_float(NodeInput::of(node.name, i)) && !keeps_rounding(node, *rounding))
        of_results.emplace_back(i, std::move(*rounding));
    }
    add_node(std::move(copy));
    for (auto& [i, rounding] : of_results) {
      const NodeInput value = NodeInput::of(node.name, i);
      rounded_[value_name(value)] = add_rounding(node, fmt::format("data_out_{}", i), value, rounding);
    }
  }

  void add_node(Node node) {
    const auto input = graph_.input_types().find(node.name);
    if (input == graph_.input_types().end()) {
      result_.graph.add(std::move(node));
      return;
    }
    const std::string name = node.name;
    result_.graph.add_input(name, input->second);
    result_.graph.node(name) = std::move(node);
  }

  NodeInput add_rounding(const Node& node, const std::string& operand, const NodeInput& value,
                         FormatRounding rounding) {
    std::string name = node.name + "." + operand;
    while (graph_.find(name) != nullptr || result_.graph.find(name) != nullptr) name += "_";
    result_.roundings.emplace(name, RoundedOperand{node.name, operand, std::move(rounding)});
    result_.graph.add({.name = name, .op = "identity", .inputs = {value}});
    return NodeInput::of(name);
  }

  bool is_float(const NodeInput& input) const {
    const Operand& value = values_.at(value_name(input));
    return value.is_tensor() && value.dtype == DType::kFloat32;
  }

  /// Whether the value was rounded by this quantizer where it was computed.
  bool is_rounded_alike(const NodeInput& input, const FormatRounding& rounding) const {
    const Node& giver = graph_.node(input.node);
    const auto theirs = giver.quantization.find(fmt::format("data_out_{}", input.result));
    return theirs != giver.quantization.end() && theirs->second.is(rounding.quantizer);
  }

  /// Whether the node's result has only elements of its inputs, or zeros, and the same quantizer rounds both.
  bool keeps_rounding(const Node& node, const FormatRounding& rounding) const {
    if (!moves_codes(node) || result_count(node) != 1 || !is_idempotent(rounding)) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant()) continue;
      const auto input = node.quantization.find(fmt::format("data_in_{}", i));
      if (input == node.quantization.end() || !input->second.is(rounding.quantizer)) return false;
    }
    return true;
  }

  const Graph& graph_;
  const ValueTypes values_ = infer_shapes(graph_);
  RoundedGraph result_;
  std::map<std::string, NodeInput> rounded_;  // by value
};

}  // namespace

Tensor FormatRounding::rounded(const Tensor& values) const {
  return spec ? fake_quantize(*spec, values, seed) : fake_quantize(*quantizer, values, seed);
}

RoundedGraph with_roundings_as_nodes(Graph graph) {
  if (folds_norms(graph)) fold_trained_norms(graph);
  if (!rounds_values(graph)) return {std::move(graph), {}};
  return RoundingNodes(graph).rewritten();
}

}  // namespace detent
