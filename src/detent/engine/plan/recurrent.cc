#include "detent/engine/plan/plan_nodes.h"

namespace detent {
namespace {

namespace operands = recurrent_operands;

bool may_have_place(const PlanBuilder& plan, const ReferenceStep& step, size_t index) {
  const NodeInput& input = step.node->inputs[index];
  if (input.is_constant() || !plan.is_placeable(value_name(input))) return false;
  return step.inputs[index].has_value() || plan.may_have_values(value_name(input));
}

bool fits_places(const PlanBuilder& plan, const RecurrentLayer& layer, const ReferenceStep& step) {
  const Node& node = *step.node;
  if (!may_have_place(plan, step, operands::kInputs)) return false;
  for (size_t s = 0; s < layer.states(); ++s) {
    const size_t index = operands::kFirstStates + s;
    if (is_given(node, index) && !may_have_place(plan, step, index)) return false;
  }
  for (size_t i = 0; i <= layer.states(); ++i) {
    if (!plan.is_placeable(value_name(node.name, i))) return false;
  }
  if (!is_given(node, operands::kLengths)) return true;
  const NodeInput& lengths = node.inputs[operands::kLengths];
  return !lengths.is_constant() && plan.is_tensor(value_name(lengths));
}

}  // namespace

bool plan_recurrent(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step) {
  const Node& node = *step.node;
  const auto found = weights.recurrent_layers.find(node.name);
  if (found == weights.recurrent_layers.end() || !fits_places(plan, *found->second, step)) return false;
  RecurrentPlaces places{.layer = found->second};
  const size_t states = places.layer->states();
  places.inputs = operand_values(plan, step, operands::kInputs, Layout::kRows);
  for (size_t s = 0; s < states; ++s) {
    const size_t index = operands::kFirstStates + s;
    if (is_given(node, index)) places.first[s] = operand_values(plan, step, index, Layout::kRows);
  }
  if (is_given(node, operands::kLengths))
    places.lengths = plan.flow_of(value_name(node.inputs[operands::kLengths]));
  for (size_t i = 0; i <= states; ++i)
    places.results[i] = plan.add_values_place(value_name(node.name, i), Layout::kRows);
  plan.read(places.inputs);
  for (const std::optional<size_t>& first : places.first) {
    if (first) plan.read(*first);
  }
  if (places.lengths) plan.note_flow(*places.lengths);
  const std::array<size_t, 3> results = places.results;
  plan.add(recurrent_step(std::move(places)), node.name, "recurrent float");
  for (size_t i = 0; i <= states; ++i) {
    const std::string result = value_name(node.name, i);
    if (step.outputs[i]) {
      plan_rounded(plan, results[i], *step.outputs[i], node, result);
    } else {
      plan.set_place(result, results[i]);
    }
  }
  return true;
}

}  // namespace detent
