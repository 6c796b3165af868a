#include "detent/passes/transform/graph_edits.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

constexpr size_t kMostSpatialDims = 3;

/// The float32 tensor that an input is, where nothing rounds it.
const Parameter* owned_weight(const Graph& graph, const Node& reader, size_t index) {
  const NodeInput& input = reader.inputs[index];
  if (input.is_constant() || reader.find_quantizer(fmt::format("data_in_{}", index)) != nullptr)
    return nullptr;
  const Node& source = graph.node(input.node);
  if (role_of(source) != OperatorRole::kConstant || source.find_quantizer("data_out_0") != nullptr)
    return nullptr;
  const Parameter* value = source.find_parameter("value");
  return value != nullptr && value->tensor.dtype() == DType::kFloat32 && value->tensor.numel() > 0 ? value
                                                                                                   : nullptr;
}

Tensor transposed(const Tensor& matrix) {
  return gathered(matrix, {{matrix.dim(1), matrix.dim(0)}, {1, matrix.dim(1)}});
}

/// `node` with these parameters in place of all inputs but the first, as an operator of layers.
void become_layer(Node& node, std::string op, std::vector<std::pair<std::string, ParameterRef>> parameters) {
  node.op = std::move(op);
  node.mase_type = find_operator(node.op).mase_type;
  if (node.target.empty()) node.target = node.name;
  node.inputs.resize(1);
  node.parameters = std::move(parameters);
}

bool make_convolution(const Graph& graph, Node& node) {
  const Parameter* weight = owned_weight(graph, node, 1);
  const bool has_bias = node.inputs.size() > 2;
  const Parameter* bias = has_bias ? owned_weight(graph, node, 2) : nullptr;
  if (weight == nullptr || has_bias != (bias != nullptr)) return false;
  const size_t dims = weight->tensor.shape().size() - 2;
  if (dims > kMostSpatialDims) return false;
  std::vector<std::pair<std::string, ParameterRef>> parameters = {{"weight", *weight}};
  if (has_bias) parameters.emplace_back("bias", *bias);
  const bool is_transposed = boolean_attribute(node, "transposed");
  node.attributes.erase("transposed");
  if (!is_transposed) node.attributes.erase("output_padding");
  become_layer(node, fmt::format("conv{}{}d", is_transposed ? "transpose" : "", dims), std::move(parameters));
  return true;
}

bool make_linear(const Graph& graph, Node& node) {
  constexpr size_t kMatrix = 2;
  const Parameter* weight = owned_weight(graph, node, 1);
  if (weight == nullptr || weight->tensor.shape().size() != kMatrix || node.inputs[0].is_constant())
    return false;
  // Where only one product is summed, as in angles of rotary positions, both factors are alike.
  if (weight->tensor.dim(0) == 1 || role_of(graph.node(node.inputs[0].node)) == OperatorRole::kConstant)
    return false;
  become_layer(node, "linear", {{"weight", Parameter{transposed(weight->tensor), true}}});
  return true;
}

using LayerMaker = bool (*)(const Graph& graph, Node& node);

LayerMaker layer_maker(std::string_view op) {
  static const std::map<std::string_view, LayerMaker> makers = {{"convolution", make_convolution},
                                                                {"matmul", make_linear}};
  const auto found = makers.find(op);
  return found == makers.end() ? nullptr : found->second;
}

}  // namespace

size_t make_constant_layers(Graph& graph) {
  size_t count = 0;
  for (Node& node : graph.nodes()) {
    const LayerMaker make = layer_maker(node.op);
    if (make != nullptr && make(graph, node)) ++count;
  }
  return count;
}

}  // namespace detent
