#include <algorithm>

#include "detent/core/error.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/traits.h"
#include "detent/onnx/importer.h"
#include "detent/onnx/node_import.h"
#include "detent/onnx/quantizer_export.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace detent {
namespace {

/// A tensor of the graph's own, or what such a one is quantized or rounded to.
std::optional<RoundedConstant> constant_of(const Graph& graph, const NodeInput& input) {
  const Node& giver = graph.node(input.node);
  if (role_of(giver) == OperatorRole::kConstant)
    return RoundedConstant{giver.find_parameter("value")->tensor, std::nullopt};
  if (const auto codes = constant_codes(graph, giver)) return RoundedConstant{*codes, std::nullopt};
  const std::optional<QuantSpec> rounding = rounding_of(giver, "data_out_0");
  if (!rounding || giver.inputs.size() != 1 || giver.inputs[0].is_constant()) return std::nullopt;
  const Node& source = graph.node(giver.inputs[0].node);
  if (role_of(source) != OperatorRole::kConstant) return std::nullopt;
  return RoundedConstant{source.find_parameter("value")->tensor, rounding};
}

/// Rounding of the result, where all inputs are rounded.
std::optional<QuantSpec> moved_rounding(const Node& node, const std::vector<RoundedConstant>& inputs,
                                        const Shape& result, size_t index) {
  std::vector<QuantSpec> specs;
  for (const RoundedConstant& input : inputs) {
    if (!input.spec) return std::nullopt;
    specs.push_back(*input.spec);
  }
  const std::optional<QuantSpec> joined = joined_rounding(specs);
  if (!joined || scale_count(*joined) == 1) return joined;
  std::vector<Tensor> places;
  int32_t before = 0;
  for (const RoundedConstant& input : inputs) {
    places.push_back(scale_places(*input.spec, input.values.shape()));
    for (int32_t& place : places.back().values<int32_t>()) place += before;
    before += static_cast<int32_t>(scale_count(*input.spec));
  }
  return rounding_at_places(*joined, moved_elements(node, places, result, 0, index),
                            specs.front().group_size);
}

}  // namespace

std::optional<RoundedConstant> moved_constants(const Graph& graph, const Node& node, const Operand& result,
                                               size_t index) {
  const Movement* movement = trait<Movement>(node);
  if (movement == nullptr || node.inputs.empty() || result.is_open()) return std::nullopt;
  std::vector<RoundedConstant> inputs;
  for (const NodeInput& input : node.inputs) {
    const bool is_size = input.is_constant() || (movement->is_view() && !inputs.empty());
    if (is_size) break;  // sizes and positions come last
    std::optional<RoundedConstant> constant = constant_of(graph, input);
    if (!constant) return std::nullopt;
    inputs.push_back(std::move(*constant));
  }
  if (inputs.empty()) return std::nullopt;
  std::vector<Tensor> tensors;
  for (const RoundedConstant& input : inputs) tensors.push_back(input.values);
  RoundedConstant moved{moved_elements(node, tensors, result.shape, 0, index),
                        moved_rounding(node, inputs, result.shape, index)};
  // A border of zeros, or a part of what a scale followed from, may be rounded to something else.
  if (moved.spec && !fake_quantize(*moved.spec, moved.values).equals(moved.values)) moved.spec.reset();
  return moved;
}

}  // namespace detent
