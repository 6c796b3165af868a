#include "detent/inference/plan.h"

#include <optional>

#include "detent/graph/operators.h"
#include "detent/inference/node_form.h"

namespace detent {
namespace {

using Shapes = std::map<std::string, Operand, std::less<>>;

/// The type of what the node makes of the codes that it moves; none where they differ or one input is no
/// codes.
std::optional<CodeType> type_of_moved(const Node& node, const Shapes& shapes,
                                      const std::map<std::string, CodeType>& types) {
  std::optional<CodeType> common;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].is_constant()) continue;
    const Operand& value = shapes.at(value_name(node.inputs[i]));
    if (!value.is_tensor() || value.dtype != DType::kFloat32) continue;  // sizes, positions
    std::optional<CodeType> type = executed_type(node, fmt::format("data_in_{}", i));
    const auto given = types.find(value_name(node.inputs[i]));
    if (!type && given != types.end()) type = given->second;
    if (!type || (common && common != type)) return std::nullopt;
    common = type;
  }
  return common ? std::optional(moved_type(node, *common)) : std::nullopt;
}

}  // namespace

std::map<std::string, CodeType> result_types(const Graph& graph) {
  const Shapes shapes = infer_shapes(graph);
  std::map<std::string, CodeType> types;
  for (const Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kOutput) continue;
    std::optional<CodeType> moved;
    if (moves_codes(node)) moved = type_of_moved(node, shapes, types);
    for (size_t i = 0; i < result_count(node); ++i) {
      const std::string operand = fmt::format("data_out_{}", i);
      const bool quantizes = node.find_quantization(operand) != nullptr;
      const std::optional<CodeType> type = quantizes ? executed_type(node, operand) : moved;
      if (type) types[value_name(node.name, i)] = *type;
    }
  }
  return types;
}

}  // namespace detent
