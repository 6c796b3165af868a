#include <fmt/format.h>

#include <algorithm>

#include "detent/engine/plan/plan_nodes.h"
#include "detent/graph/traits.h"

// Inputs that follow each other along a dimension: bytes, each converted to the type of the result while it
// is copied, or values.

namespace detent {
namespace {

/// The only dimension in which all inputs, which the result has one after the other, differ from it.
std::optional<size_t> joined_axis(std::span<const StridedCopy> copies, const Shape& result) {
  const StridedView whole = StridedView::of(result);
  std::optional<size_t> axis;
  int64_t elements = 0;
  for (size_t i = 0; i < copies.size(); ++i) {
    const StridedCopy& copy = copies[i];
    if (copy.input != i || copy.from.offset != 0 || !copy.from.is_contiguous()) return std::nullopt;
    const Shape& shape = copy.to.shape;
    if (shape.size() != result.size()) return std::nullopt;
    const auto differs = std::ranges::mismatch(shape, result);
    if (differs.in1 == shape.end()) return std::nullopt;
    const auto at = static_cast<size_t>(differs.in1 - shape.begin());
    if (axis && *axis != at) return std::nullopt;
    axis = at;
    int64_t before = 0;
    for (size_t earlier = 0; earlier < i; ++earlier) before += copies[earlier].to.shape[at];
    if (copy.to.offset != before * whole.strides[at] || copy.to.strides != whole.strides) return std::nullopt;
    elements += element_count(shape);
  }
  return elements == element_count(result) ? axis : std::nullopt;
}

/// A tensor that is joined, and the codes that it is read as; none: values.
struct Joined {
  std::string value;
  std::optional<CodeType> type;
};

/// The float inputs, unless one of them can be read neither as bytes nor as values.
std::optional<std::vector<Joined>> joined_inputs(const PlanBuilder& plan, const ReferenceStep& step) {
  std::vector<Joined> inputs;
  for (size_t i = 0; i < step.node->inputs.size(); ++i) {
    const NodeInput& input = step.node->inputs[i];
    if (input.is_constant()) continue;
    const std::string value = value_name(input);
    if (!plan.is_float(value)) return std::nullopt;
    const std::optional<CodeType> type = step.inputs[i] ? step.inputs[i] : plan.value(value).type;
    const bool has_place =
        type ? !type->is_sign && (fits_bytes(*type) || is_wide(*type)) : plan.may_have_values(value);
    if (!has_place) return std::nullopt;
    inputs.push_back({value, type});
  }
  return inputs;
}

/// The layout of the first place that lies channels last, else rows.
Layout layout_of_joined(PlanBuilder& plan, const Node& node, std::span<const Joined> inputs,
                        const std::string& result) {
  if (!plan.may_be_pooled(result)) return Layout::kRows;
  for (const Joined& input : inputs) {
    const size_t place = plan.operand(input.value, input.type, std::nullopt, node);
    if (plan.place(place).has_positions()) return Layout::kChannelsLast;
  }
  return Layout::kRows;
}

size_t add_join(PlanBuilder& plan, const Node& node, std::vector<JoinedInput> inputs, size_t axis, size_t to,
                std::string kernel) {
  int64_t begin = 0;
  for (JoinedInput& input : inputs) {
    input.begin = begin;
    begin += plan.place(input.place).shape[axis];
  }
  if (axis == 1 && plan.place(to).has_positions()) plan.note_joined_channels(to, inputs);
  for (const JoinedInput& input : inputs) plan.read(input.place);
  plan.add(join_step(plan.kernels(), std::move(inputs), axis, to), node.name, std::move(kernel));
  return to;
}

void plan_joined_bytes(PlanBuilder& plan, const Node& node, std::span<const Joined> inputs, size_t axis,
                       const CodeType& type, const std::string& result) {
  const Layout layout = layout_of_joined(plan, node, inputs, result);
  std::vector<JoinedInput> joined;
  bool converts = false;
  for (const Joined& input : inputs) {
    joined.push_back({.place = plan.place_of(input.value, *input.type, layout, node)});
    if (*input.type == type) continue;
    joined.back().table = conversion_table(*input.type, type);
    converts = true;
  }
  const size_t to = plan.add_place({.shape = plan.shape(result), .layout = layout, .type = type});
  plan.set_place(result,
                 add_join(plan, node, std::move(joined), axis, to,
                          converts ? fmt::format("moved bytes {}", plan.kernels().name) : "moved bytes"));
}

void plan_joined_values(PlanBuilder& plan, const Node& node, std::span<const Joined> inputs, size_t axis,
                        const std::optional<CodeType>& type, const std::string& result) {
  const Layout layout = layout_of_joined(plan, node, inputs, result);
  std::vector<JoinedInput> joined;
  for (const Joined& input : inputs) {
    joined.push_back({.place = input.type ? plan.values_of_codes(input.value, *input.type, layout, node)
                                          : plan.values_of(input.value, layout, node)});
  }
  const size_t to = plan.add_values_place(result, layout);
  add_join(plan, node, std::move(joined), axis, to, "moved values");
  const auto is_as_rounded = [&](const Joined& input) { return is_wide(*type) && input.type == type; };
  if (type && std::ranges::all_of(inputs, is_as_rounded)) {
    plan.place(to).type = *type;
    plan.set_place(result, to);
    return;
  }
  type ? plan_rounded(plan, to, *type, node, result) : plan.set_place(result, to);
}

}  // namespace

bool plan_joined(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  const auto* movement = trait<Movement>(node);
  if (movement == nullptr || !movement->joins || !movement->copies || step.form) return false;
  const auto inputs = joined_inputs(plan, step);
  if (!inputs || inputs->empty()) return false;
  std::vector<Shape> shapes;
  for (const Joined& input : *inputs) shapes.push_back(plan.shape(input.value));
  const auto axis = joined_axis(movement->copies(node, shapes, plan.shape(result)), plan.shape(result));
  if (!axis) return false;
  const bool alike =
      std::ranges::all_of(*inputs, [&](const Joined& j) { return j.type == inputs->front().type; });
  const std::optional<CodeType> type = step.outputs[0] ? step.outputs[0]
                                       : alike         ? inputs->front().type
                                                       : std::nullopt;
  const bool has_bytes =
      std::ranges::all_of(*inputs, [](const Joined& j) { return j.type && fits_bytes(*j.type); });
  if (type && (type->is_sign || (!fits_bytes(*type) && !is_wide(*type)))) return false;
  if (has_bytes && type && fits_bytes(*type)) {
    plan_joined_bytes(plan, node, *inputs, *axis, *type, result);
  } else {
    plan_joined_values(plan, node, *inputs, *axis, type, result);
  }
  return true;
}

}  // namespace detent
