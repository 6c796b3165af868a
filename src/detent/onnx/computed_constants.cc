#include <optional>
#include <vector>

#include "detent/float32/float_node.h"
#include "detent/float32/float_nodes.h"
#include "detent/graph/known_elements.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/onnx/importer.h"

// Exporters write tables (kernels of resampling, positions, windows) as functions of constants. As ONNX
// Runtime does, these are computed once.

namespace detent {
namespace {

/// Work is bounded by the elements of the result.
bool is_elementwise(const Node& node) {
  return find_operator(node.op).elementwise || trait<Unary>(node) != nullptr ||
         trait<PairOperation>(node) != nullptr;
}

}  // namespace

std::optional<Tensor> OnnxImporter::computed_constant(const Node& node, size_t result) const {
  if (!node.quantization.empty() || !node.parameters.empty() || !is_elementwise(node)) return std::nullopt;
  std::vector<FloatFlow> inputs;
  bool any = false;
  for (const NodeInput& input : node.inputs) {
    FloatFlow& flow = inputs.emplace_back();
    if (input.is_constant()) {
      flow.number = input.constant;
      continue;
    }
    const Node& giver = graph_.node(input.node);
    const auto& [first, second] = types(input);
    if (role_of(giver) == OperatorRole::kConstant && giver.quantization.empty()) {
      flow.tensor = giver.find_parameter("value")->tensor;
    } else if (have_same_elements(first, second)) {
      flow.tensor = *first.elements;
    } else {
      return std::nullopt;
    }
    any = true;
  }
  if (!any) return std::nullopt;
  return FloatNodes().results(node, inputs).at(result).tensor;
}

}  // namespace detent
