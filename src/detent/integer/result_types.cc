#include "detent/integer/result_types.h"

#include <optional>

#include "detent/graph/operators.h"
#include "detent/integer/node_form.h"

namespace detent {
namespace {

using Shapes = std::map<std::string, Operand, std::less<>>;

/// The type of all the codes that the node moves; none where they differ or one input is no codes.
std::optional<CodeType> moved_type(const Node& node, const Shapes& shapes,
                                   const std::map<std::string, CodeType>& types) {
  std::optional<CodeType> common;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].is_constant() || !shapes.at(node.inputs[i].node).is_tensor()) continue;
    std::optional<CodeType> type = operand_code_type(node, fmt::format("data_in_{}", i));
    const auto given = types.find(node.inputs[i].node);
    if (!type && given != types.end()) type = given->second;
    if (!type || (common && common != type)) return std::nullopt;
    common = type;
  }
  return common;
}

}  // namespace

std::map<std::string, CodeType> result_types(const Graph& graph) {
  const Shapes shapes = infer_shapes(graph);
  std::map<std::string, CodeType> types;
  for (const Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kOutput) continue;
    std::optional<CodeType> type = operand_code_type(node, "data_out_0");
    const bool quantizes = node.find_quantization("data_out_0") != nullptr;
    if (!quantizes && moves_codes(node)) type = moved_type(node, shapes, types);
    if (type) types[node.name] = *type;
  }
  return types;
}

}  // namespace detent
