#include "detent/engine/packed_float_sums.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "detent/engine/packed_sums.h"
#include "detent/engine/place.h"
#include "detent/inference/float_node.h"

namespace detent {
namespace {

namespace operands = recurrent_operands;

class RecurrentPacker {
 public:
  explicit RecurrentPacker(const ReferencePlan& plan) : plan_(plan) {
    for (const ReferenceStep& step : plan.steps) steps_.emplace(step.node->name, &step);
  }

  /// nullptr where a weight is no constant.
  std::shared_ptr<const RecurrentLayer> packed(const ReferenceStep& step, RecurrentKind kind) const {
    const auto inputs = weight(step, operands::kWeights);
    const auto states = weight(step, operands::kStateWeights);
    const auto biases = weight(step, operands::kBiases);
    const auto peepholes = weight(step, operands::kPeepholes);
    const auto is_unknown = [&](size_t index, const std::optional<Tensor>& tensor) {
      return !tensor && is_given(*step.node, index);
    };
    if (!inputs || !states || is_unknown(operands::kBiases, biases) ||
        is_unknown(operands::kPeepholes, peepholes))
      return nullptr;
    return std::make_shared<const RecurrentLayer>(
        kind, *step.node,
        RecurrentWeights{.inputs = *inputs,
                         .states = *states,
                         .biases = biases,
                         .peepholes = peepholes,
                         .input_scales = scales(*step.node, operands::kWeights),
                         .state_scales = scales(*step.node, operands::kStateWeights)});
  }

 private:
  std::optional<Tensor> weight(const ReferenceStep& step, size_t index) const {
    if (!is_given(*step.node, index)) return std::nullopt;
    const std::optional<Flow> flow = constant(step.node->inputs[index]);
    if (!flow) return std::nullopt;
    return as_values(converted(*step.node, *flow, step.inputs[index]));
  }

  /// Scales of the directions of a weight that an affine format without zero points rounds; empty of others.
  std::vector<float> scales(const Node& node, size_t index) const {
    std::optional<QuantSpec> rounding = node.rounding(fmt::format("data_in_{}", index));
    if (!rounding) rounding = steps_.find(node.inputs[index].node)->second->node->rounding("value");
    if (!rounding) return {};
    std::vector<float> found;
    for (const CodeType& type : code_types(*rounding)) {
      if (type.zero_point != 0) return {};
      found.push_back(type.scale);
    }
    const auto directions = static_cast<size_t>(recurrent_directions(node));
    if (found.size() == 1) found.resize(directions, found[0]);
    const bool is_by_direction = rounding->granularity != Granularity::kChannel || rounding->axis == 0;
    return is_by_direction && found.size() == directions ? found : std::vector<float>();
  }

  /// A tensor that the network owns, or what a node of its own rounds that to.
  std::optional<Flow> constant(const NodeInput& input) const {
    if (input.is_constant()) return std::nullopt;
    const ReferenceStep& step = *steps_.find(input.node)->second;
    std::vector<Flow> inputs;
    if (step.rounds != nullptr) {
      const std::optional<Flow> rounded = constant(step.node->inputs[0]);
      if (!rounded) return std::nullopt;
      inputs.push_back(*rounded);
    } else if (step.role != OperatorRole::kConstant) {
      return std::nullopt;
    }
    return reference_results(step, inputs, plan_.in_float.get()).front();
  }

  const ReferencePlan& plan_;
  std::map<std::string, const ReferenceStep*, std::less<>> steps_;
};

bool has_no_place(const std::optional<CodeType>& type) {
  return type && (type->is_sign || (!fits_bytes(*type) && !is_wide(*type)));
}

}  // namespace

PackedRecurrentLayers packed_recurrent_layers(const ReferencePlan& plan) {
  PackedRecurrentLayers layers;
  std::optional<RecurrentPacker> packer;
  for (const ReferenceStep& step : plan.steps) {
    if (step.role != OperatorRole::kComputes || step.rounds != nullptr) continue;
    const FloatOperator* const found = find_float_operator(step.node->op);
    if (found == nullptr || !found->recurrent) continue;
    if (std::ranges::any_of(step.inputs, has_no_place) || std::ranges::any_of(step.outputs, has_no_place))
      continue;
    if (!packer) packer.emplace(plan);
    auto layer = packer->packed(step, *found->recurrent);
    if (layer != nullptr) layers.emplace(step.node->name, std::move(layer));
  }
  return layers;
}

}  // namespace detent
