#include "detent/engine/shown_values.h"

#include <fmt/format.h>

#include <utility>

namespace detent {

ShownValues::ShownValues(const ReferencePlan& plan, const Observation& observation)
    : plan_(plan),
      observation_(observation),
      before_(observation.values == ObservedValues::kBeforeQuantization),
      inputs_(plan.steps.size()),
      results_(plan.steps.size()) {
  if (!observation.see) return;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const ReferenceStep& step = plan.steps[i];
    step.rounds == nullptr ? add_operands(step, i) : add_rounding(step, i);
  }
}

void ShownValues::add_operands(const ReferenceStep& step, size_t index) {
  const Node& node = *step.node;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].is_constant() || step.inputs_are_rounded[i]) continue;
    add(inputs_[index], {&node, fmt::format("data_in_{}", i), value_name(node.inputs[i]),
                         before_ ? std::nullopt : step.inputs[i]});
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (!before_ && step.results_are_rounded[i]) continue;
    ShownValue shown{&node, fmt::format("data_out_{}", i), value_name(node.name, i)};
    if (before_ && step.outputs[i]) shown.unrounded = i;
    add(results_[index], std::move(shown));
  }
}

/// A node that rounds a result of another: that has shown it as it was before.
void ShownValues::add_rounding(const ReferenceStep& step, size_t index) {
  const Node& of = plan_.graph.node(step.rounds->node);
  const std::string& operand = step.rounds->operand;
  if (!before_) {
    add(results_[index], {&of, operand, value_name(step.node->name)});
  } else if (operand.starts_with("data_in_")) {
    add(inputs_[index], {&of, operand, value_name(step.node->inputs[0])});
  }
}

void ShownValues::add(std::vector<ShownValue>& to, ShownValue shown) {
  if (!observation_.shows(shown.node->name, shown.operand)) return;
  if (shown.unrounded) {
    need_inputs(*shown.node);
  } else {
    needed_.insert(shown.value);
  }
  to.push_back(std::move(shown));
}

void ShownValues::need_inputs(const Node& node) {
  for (const NodeInput& input : node.inputs)
    if (!input.is_constant()) needed_.insert(value_name(input));
}

}  // namespace detent
