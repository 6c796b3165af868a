#include "detent/passes/transform/learned_scales.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/formats/learned_scale.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

using Results = std::map<std::string, Operand, std::less<>>;

/// Of an operand that is no parameter.
const Shape& activation_shape(const Node& node, std::string_view operand, const Results& results) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (operand == fmt::format("data_in_{}", i)) return results.at(node.inputs[i].node).shape;
  }
  DETENT_CHECK(operand == "data_out_0", "node {}: operand {}", node.name, operand);
  return results.at(node.name).shape;
}

Tensor begin_scale(const Node& node, const std::string& operand, const QuantSpec& spec,
                   const Results& results, const std::string& where) {
  if (const Parameter* parameter = node.find_parameter(operand)) {
    return initial_scale(spec, parameter->tensor, where);
  }
  return initial_scale(spec, activation_shape(node, operand, results), where);
}

}  // namespace

void place_learned_scales(Graph& graph, const std::string& where) {
  const Results results = infer_shapes(graph);
  for (Node& node : graph.nodes()) {
    std::vector<std::pair<std::string, Parameter>> scales;
    for (const auto& [operand, spec] : node.quantization) {
      if (spec.scale_rule != ScaleRule::kLearned) continue;
      const std::string name = Node::scale_name(operand);
      const std::string operand_where =
          fmt::format("{}: node \"{}\", operand \"{}\"", where, node.name, operand);
      Tensor scale = begin_scale(node, operand, spec, results, operand_where);
      const Parameter* present = node.find_parameter(name);
      const bool keep = present != nullptr && present->tensor.shape() == scale.shape();
      scales.emplace_back(name, keep ? *present : Parameter{std::move(scale), true});
    }
    const OperatorSchema& schema = find_operator(node.op);
    std::erase_if(node.parameters,
                  [&](const auto& entry) { return schema.find_parameter(entry.first) == nullptr; });
    std::ranges::move(scales, std::back_inserter(node.parameters));
  }
}

}  // namespace detent
