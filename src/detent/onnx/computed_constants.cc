#include <optional>
#include <vector>

#include "detent/graph/known_elements.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_node.h"
#include "detent/inference/float_nodes.h"
#include "detent/onnx/importer.h"

// Exporters write tables (kernels of resampling, positions, windows) and weights (normalized, standardized,
// with adapters of low rank) as functions of constants. As ONNX Runtime does, these are computed once.

namespace detent {
namespace {

/// Work is bounded by the elements of inputs and results.
bool is_linear(const Node& node) {
  const OperatorSchema& schema = find_operator(node.op);
  const bool is_elementwise =
      schema.elementwise || trait<Unary>(node) != nullptr || trait<PairOperation>(node) != nullptr;
  const bool looks_up = !schema.index_operands.empty() && schema.quantizable;
  if (is_elementwise || looks_up || trait<Movement>(node) != nullptr) return true;
  const FloatOperator* found = find_float_operator(node.op);
  return found != nullptr &&
         (found->rows != nullptr || found->pairs != nullptr || found->reduction != nullptr);
}

/// Time in bytes that are written meanwhile.
int64_t cost_of_products(const Operand& left, const Operand& result) {
  constexpr int64_t kProductsPerByte = 8;
  return left.shape.empty() ? 0 : element_count(result.shape) * left.shape.back() / kProductsPerByte;
}

}  // namespace

int64_t byte_size(const Operand& operand) {
  return operand.is_open() ? 0
                           : element_count(operand.shape) * static_cast<int64_t>(dtype_size(operand.dtype));
}

bool OnnxImporter::may_compute(const Node& node, const Operand& result) {
  int64_t work = byte_size(result);
  for (const NodeInput& input : node.inputs)
    if (!input.is_constant()) work += byte_size(types(input).first);
  if (trait<MatrixProduct>(node) != nullptr) work += cost_of_products(types(node.inputs[0]).first, result);
  if (result.is_open() || work > computable_ || byte_size(result) > knowable_) return false;
  computable_ -= work;
  return true;
}

std::optional<Tensor> OnnxImporter::computed_constant(const Node& node, size_t result, ComputedParts& parts) {
  const bool is_fast = is_linear(node) || trait<MatrixProduct>(node) != nullptr;
  if (!node.quantization.empty() || !node.parameters.empty() || !is_fast) return std::nullopt;
  std::vector<FloatFlow> inputs;
  bool any = false;
  for (const NodeInput& input : node.inputs) {
    FloatFlow& flow = inputs.emplace_back();
    if (input.is_constant()) {
      flow.number = input.constant;
      flow.is_absent = input.is_absent();
      continue;
    }
    const std::optional<Tensor> tensor = constant_input(input, parts);
    if (!tensor) return std::nullopt;
    flow.tensor = *tensor;
    any = true;
  }
  if (!any) return std::nullopt;
  if (!may_compute(node, types(NodeInput::of(node.name, result)).first)) {
    parts.exceeds_limits = true;
    return std::nullopt;
  }
  return FloatNodes().results(node, inputs).at(result).tensor;
}

std::optional<Tensor> OnnxImporter::constant_input(const NodeInput& input, ComputedParts& parts) {
  ++constants_sought_;
  const Node& giver = graph_.node(input.node);
  const auto& [first, second] = types(input);
  if (role_of(giver) == OperatorRole::kConstant && giver.quantization.empty())
    return giver.find_parameter("value")->tensor;
  if (have_same_elements(first, second)) return first.elements;
  // Another value of the model is a constant already if it can be.
  if (!giver.source_names.empty() || first.shape != second.shape) return std::nullopt;
  const std::string name = value_name(input.node, input.result);
  if (varying_.contains(name)) return std::nullopt;
  if (const auto known = parts.values.find(name); known != parts.values.end()) return known->second;
  std::optional<Tensor> part = computed_constant(giver, input.result, parts);
  if (!part && !parts.exceeds_limits) varying_.insert(name);
  parts.values.emplace(name, part);
  return part;
}

}  // namespace detent
