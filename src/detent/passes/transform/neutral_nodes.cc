#include "detent/passes/transform/graph_edits.h"

#include <map>
#include <optional>
#include <string>

#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// The number that an operand is, where it has one element and so many dimensions at most.
std::optional<double> number_of(const Graph& graph, const NodeInput& input, size_t most_dims) {
  if (input.is_absent()) return std::nullopt;
  if (input.is_constant()) {
    double scratch = 0;
    const double* const number = input.constant.number(scratch);
    return number == nullptr ? std::nullopt : std::optional(*number);
  }
  const Node& source = graph.node(input.node);
  if (role_of(source) != OperatorRole::kConstant || !source.quantization.empty()) return std::nullopt;
  const Parameter* const value = source.find_parameter("value");
  if (value == nullptr || value->tensor.dtype() != DType::kFloat32) return std::nullopt;
  if (value->tensor.numel() != 1 || value->tensor.shape().size() > most_dims) return std::nullopt;
  return static_cast<double>(value->tensor.values<float>()[0]);
}

/// The operand that the node's result is; nullptr where it may be another one.
const NodeInput* unchanged_operand(const Graph& graph, const Node& node, const ValueTypes& types) {
  const auto* operation = trait<PairOperation>(node);
  if (operation == nullptr || *operation == PairOperation::kPrelu || node.inputs.size() != 2) return nullptr;
  if (!node.quantization.empty()) return nullptr;
  const bool is_sum = *operation == PairOperation::kAdd || *operation == PairOperation::kSub;
  const bool commutes = *operation == PairOperation::kAdd || *operation == PairOperation::kMul;
  const double neutral = is_sum ? 0 : 1;
  for (size_t kept = 0; kept < (commutes ? 2U : 1U); ++kept) {
    const NodeInput& input = node.inputs[kept];
    if (input.is_constant() || input.result != 0) continue;
    const Operand& type = types.at(value_name(input));
    if (type.dtype != DType::kFloat32) continue;
    if (number_of(graph, node.inputs[1 - kept], type.shape.size()) == neutral) return &input;
  }
  return nullptr;
}

}  // namespace

size_t bypass_neutral_nodes(Graph& graph) {
  const ValueTypes types = infer_shapes(graph);
  std::map<std::string, std::string> replaced;
  for (const Node& node : graph.nodes()) {
    if (const NodeInput* const operand = unchanged_operand(graph, node, types))
      replaced.emplace(node.name, operand->node);
  }
  redirect_readers(graph, replaced);
  return replaced.size();
}

}  // namespace detent
