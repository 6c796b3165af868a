#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>

#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/onnx/import_steps.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// Nodes whose result is subtracted, or from which something is.
std::set<std::string> nodes_in_differences(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes()) {
    const auto* pair = trait<PairOperation>(node);
    if (pair == nullptr || *pair != PairOperation::kSub) continue;
    for (const NodeInput& input : node.inputs)
      if (!input.is_constant()) names.insert(input.node);
  }
  return names;
}

bool is_square(const Graph& graph, const NodeInput& value) {
  if (value.is_constant()) return false;
  const Node& node = graph.node(value.node);
  return node.op == "pow" || (node.op == "mul" && node.inputs[0] == node.inputs[1]);
}

bool keeps_dimensions(const Node& node) {
  return node.op == "mean" && node.inputs.size() == 2 && boolean_attribute(node, "keepdim");
}

}  // namespace

void recognize_pools(Graph& graph) {
  if (std::ranges::none_of(graph.nodes(), keeps_dimensions)) return;
  const std::set<std::string> in_differences = nodes_in_differences(graph);
  const ValueTypes types = infer_shapes(graph);
  for (Node& node : graph.nodes()) {
    if (!keeps_dimensions(node) || in_differences.contains(node.name)) continue;
    if (node.inputs[0].is_constant() || is_square(graph, node.inputs[0])) continue;
    const Operand& x = types.at(value_name(node.inputs[0]));
    if (x.dtype != DType::kFloat32 || !are_places(node.inputs[1], x.shape.size())) continue;
    node.op = fmt::format("adaptive_avg_pool{}d", x.shape.size() - 2);
    node.inputs.resize(1);
    node.attributes = {{"output_size", 1}};
    node.mase_type = find_operator(node.op).mase_type;
  }
}

}  // namespace detent
