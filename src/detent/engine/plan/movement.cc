#include "detent/engine/plan/plan_nodes.h"
#include "detent/graph/traits.h"

// Data movement: views, slices, permutations, concatenations; of bytes, of codes of more than 8 bits and of
// values.

namespace detent {
namespace {

/// Whether the result is one input in another order: who reads it may do so where it lies.
bool is_whole_view(std::span<const StridedCopy> copies, const Shape& result) {
  if (copies.size() != 1) return false;
  const StridedCopy& copy = copies.front();
  return copy.to.shape == result && copy.to.is_contiguous() && copy.to.offset == 0;
}

/// The elements of `input` that `view` says, moved once somebody needs them together.
void note_move(PlanBuilder& plan, const Node& node, const std::string& input, const StridedView& view,
               const std::optional<CodeType>& type, const std::string& result) {
  PlannedValue value = plan.new_value(result);
  value.type = type;
  value.move = PendingMove{&node, input, type, view};
  const PlannedValue& source = plan.value(input);
  if (source.move && source.places.empty() && source.move->type == type) {
    if (const auto both = view.over(source.move->view)) {
      value.move->from = source.move->from;
      value.move->view = *both;
    }
  }
  plan.add_value(result, std::move(value));
}

}  // namespace

bool plan_parts(PlanBuilder& plan, const ReferenceStep& step) {
  const Node& node = *step.node;
  const auto* movement = trait<Movement>(node);
  if (movement == nullptr || !movement->parts || step.form || node.inputs[0].is_constant()) return false;
  const std::string input = value_name(node.inputs[0]);
  if (!plan.is_placeable(input)) return false;
  const std::optional<CodeType> type = step.inputs[0] ? step.inputs[0] : plan.value(input).type;
  if (type ? type->is_sign || !(fits_bytes(*type) || is_wide(*type)) : !plan.may_have_values(input))
    return false;
  std::vector<StridedView> parts;
  for (size_t i = 0; i < result_count(node); ++i) {
    const std::string result = value_name(node.name, i);
    if (!plan.is_placeable(result) || (step.outputs[i] && step.outputs[i] != type)) return false;
    const std::vector<StridedCopy> copies = movement->parts(node, plan.shape(input), i);
    if (!is_whole_view(copies, plan.shape(result))) return false;
    parts.push_back(copies.front().from);
  }
  for (size_t i = 0; i < parts.size(); ++i)
    note_move(plan, node, input, parts[i], type, value_name(node.name, i));
  return true;
}

bool plan_rounded_movement(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  const auto* movement = trait<Movement>(node);
  const std::optional<CodeType>& type = step.outputs[0];
  if (movement == nullptr || node.inputs.size() != 1 || !type || step.inputs[0]) return false;
  const std::string input = value_name(node.inputs[0]);
  const Shape& shape = plan.shape(input);
  const bool takes_all = element_count(shape) == element_count(plan.shape(result));
  if (plan.value(input).type || !plan.may_have_values(input) || !takes_all) return false;
  StridedView view = StridedView::of(plan.shape(result));
  if (!movement->is_view()) {
    if (!movement->copies) return false;
    const auto copies = movement->copies(node, std::span(&shape, 1), plan.shape(result));
    if (!is_whole_view(copies, plan.shape(result))) return false;
    view = copies.front().from;
  }
  note_move(plan, node, input, view, type, result);
  return true;
}

bool plan_movement(PlanBuilder& plan, const ReferenceStep& step, const std::optional<CodeType>& type,
                   const std::string& result) {
  const Node& node = *step.node;
  const auto* movement = trait<Movement>(node);
  if (movement == nullptr) return false;
  if (movement->is_view()) {
    note_move(plan, node, value_name(node.inputs[0]), StridedView::of(plan.shape(result)), type, result);
    return true;
  }
  if (!movement->copies) return false;
  std::vector<std::string> inputs;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].is_constant() || !plan.is_float(value_name(node.inputs[i]))) continue;
    inputs.push_back(value_name(node.inputs[i]));
    shapes.push_back(plan.shape(inputs.back()));
    const std::optional<CodeType> own = step.inputs[i] ? step.inputs[i] : plan.value(inputs.back()).type;
    const bool is_rounded_here = !own && type && step.outputs[0] == type;
    if (own != type && !is_rounded_here) return false;
    if (!own && !plan.may_have_values(inputs.back())) return false;
  }
  MovedInputs moved{.places = {}, .copies = movement->copies(node, shapes, plan.shape(result))};
  if (is_whole_view(moved.copies, plan.shape(result))) {
    note_move(plan, node, inputs.front(), moved.copies.front().from, type, result);
    return true;
  }
  constexpr int64_t kMostElements = int64_t{1} << 22;  // whose places are noted one by one
  if (element_count(plan.shape(result)) > kMostElements) return false;
  // As its inputs lie, where the result can.
  for (const std::string& input : inputs)
    moved.places.push_back(plan.operand(input, type, std::nullopt, node));
  for (const size_t place : moved.places) plan.read(place);
  const Place& first = plan.place(moved.places.front());
  Place to{.shape = plan.shape(result),
           .layout = plan.has_positions(result) ? first.layout : Layout::kRows,
           .type = first.type,
           .is_values = first.is_values};
  const char* const kernel = first.is_values ? "moved values" : "moved bytes";
  const size_t place = plan.add_place(std::move(to));
  plan.add(movement_step(std::move(moved), place), node.name, kernel);
  plan.set_place(result, place);
  return true;
}

}  // namespace detent
