#include <algorithm>

#include "detent/engine/plan/plan_nodes.h"
#include "detent/inference/float_node.h"
#include "detent/inference/flow.h"
#include "detent/inference/resize_weights.h"

// Resampling and reductions of values along dimensions; both take sizes, scales or dimensions as operands.

namespace detent {
namespace {

/// The operands but for the first, as far as they are known before a run; nullopt where one is not.
std::optional<std::vector<FloatFlow>> known_operands(const PlanBuilder& plan, const Node& node) {
  std::vector<FloatFlow> operands(node.inputs.size());
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i].is_constant()) continue;
    const PlannedValue& value = plan.value(value_name(node.inputs[i]));
    if (!value.known) return std::nullopt;
    operands[i] = float_flow(*value.known);
  }
  return operands;
}

/// The dimensions, if they follow each other.
std::optional<ReducedDims> adjacent_dims(const std::vector<bool>& is_reduced) {
  const auto first = std::ranges::find(is_reduced, true);
  const auto end = std::find(first, is_reduced.end(), false);
  if (first == end || std::find(end, is_reduced.end(), true) != is_reduced.end()) return std::nullopt;
  return ReducedDims{static_cast<size_t>(first - is_reduced.begin()),
                     static_cast<size_t>(end - is_reduced.begin())};
}

/// Whether elements only move.
bool is_nearest(const std::vector<ResampledAxis>& axes) {
  return std::ranges::all_of(axes, [](const ResampledAxis& axis) {
    return std::ranges::all_of(axis.taps, [](const ResizeTaps& taps) { return taps.places.size() == 1; });
  });
}

/// The codes that an operand has and the result keeps, where it is moved.
std::optional<CodeType> kept_type(const PlanBuilder& plan, const ReferenceStep& step) {
  const PlannedValue& value = plan.value(value_name(step.node->inputs[0]));
  const std::optional<CodeType> type = step.inputs[0] ? step.inputs[0] : value.type;
  if (!type || !fits_bytes(*type) || type->is_sign || (step.outputs[0] && step.outputs[0] != type))
    return std::nullopt;
  return type;
}

}  // namespace

bool plan_resampled(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  const FloatOperator* const found = find_float_operator(node.op);
  const std::string input = value_name(node.inputs[0]);
  if (found == nullptr || found->resampled == nullptr || !plan.may_be_pooled(input)) return false;
  const auto operands = known_operands(plan, node);
  if (!operands) return false;
  const auto axes = found->resampled({node, *operands, {}}, plan.shape(input));
  if (!axes || std::ranges::any_of(*axes, [](const ResampledAxis& axis) { return axis.dim < 2; }))
    return false;
  const size_t rank = plan.shape(input).size();
  const std::optional<CodeType> type = is_nearest(*axes) ? kept_type(plan, step) : std::nullopt;
  if (type) {
    const size_t from = plan.place_of(input, *type, Layout::kChannelsLast, node);
    const size_t to =
        plan.add_place({.shape = plan.shape(result), .layout = Layout::kChannelsLast, .type = *type});
    plan.add(resample_step(*axes, rank, plan.read(from), to), node.name, "resampled bytes");
    plan.set_place(result, to);
    return true;
  }
  const size_t from = operand_values(plan, step, 0, Layout::kChannelsLast);
  const size_t to = plan.add_values_place(result, Layout::kChannelsLast);
  plan.add(resample_step(*axes, rank, plan.read(from), to), node.name, "resampled float");
  set_values(plan, step, to, result);
  return true;
}

bool plan_reduced(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  const FloatOperator* const found = find_float_operator(node.op);
  if (found == nullptr || found->reduction == nullptr) return false;
  const std::string input = value_name(node.inputs[0]);
  const Shape shape = plan.shape(input);
  const auto operands = known_operands(plan, node);
  if (!operands) return false;
  const auto dims = adjacent_dims(reduced_dims({node, *operands, {}}, shape.size()));
  if (!dims) return false;
  const bool are_positions = plan.may_be_pooled(input) && dims->first == 2 && dims->end == shape.size();
  const bool are_channels = plan.may_be_pooled(input) && dims->first == 1 && dims->end == 2;
  const bool are_rows = dims->end == shape.size();
  if (!are_rows && found->reduction->rows == nullptr) return false;
  size_t from = operand_values(plan, step, 0, std::nullopt);
  const bool as_it_lies = !plan.place(from).has_positions() || are_channels ||
                          (are_positions && found->reduction->rows != nullptr);
  if (!as_it_lies) from = operand_values(plan, step, 0, Layout::kRows);
  const bool has_channels_last = plan.place(from).has_positions() && are_positions;
  const Layout layout =
      has_channels_last && plan.may_be_pooled(result) ? Layout::kChannelsLast : Layout::kRows;
  const size_t to = plan.add_values_place(result, layout);
  plan.add(reduction_step(*found->reduction, *dims, plan.read(from), to), node.name, "reduced float");
  set_values(plan, step, to, result);
  return true;
}

}  // namespace detent
