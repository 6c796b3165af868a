#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "detent/engine/plan/plan_nodes.h"
#include "detent/graph/traits.h"

// Codes of more than 8 bits, whose values float32 holds: a rounded value divided by its scale is its code
// again. They lie in places as these values, so what moves, compares or adds values is the same as in float.

namespace detent {
namespace {

bool is_wide(const std::optional<CodeType>& type) { return type && is_wide(*type); }

/// Values that are so many times `unit` become codes of a wide type, which are the result.
void round_to_wide(PlanBuilder& plan, size_t from, float unit, const CodeType& type, const Node& node,
                   const std::string& result) {
  const size_t to = plan.add_values_place(result, plan.place(from).layout, type);
  plan.add(rounded_values(plan.kernels(), node, unit, type, plan.read(from), to), node.name,
           fmt::format("quantize {}", plan.kernels().name));
  plan.set_place(result, to);
}

SumsEnd clamping_end(const Clamp& clamp) {
  return {.clamps = true, .low = static_cast<float>(clamp.low), .high = static_cast<float>(clamp.high)};
}

bool plan_wide_pairs(PlanBuilder& plan, const ReferenceStep& step, const PairForm& form,
                     const std::string& result) {
  if (form.fixed_point || form.output.is_sign) return false;
  const bool has_wide = is_wide(form.a) || is_wide(form.b) || is_wide(form.output);
  return has_wide && plan_value_pairs(plan, step, result);
}

/// Whether float32 gives the entries of the table of a pair with a number: a code each, which NaN has not.
bool is_pair_with_number(const Node& node) {
  const auto* operation = trait<PairOperation>(node);
  if (operation == nullptr || node.inputs.size() != 2) return false;
  double scratch = 0;
  const NodeInput& number = node.inputs[node.inputs[0].is_constant() ? 0 : 1];
  const double* value = number.constant.number(scratch);
  const bool is_usual = *operation == PairOperation::kAdd || *operation == PairOperation::kSub ||
                        *operation == PairOperation::kMul;
  return is_usual && value != nullptr && std::isfinite(static_cast<float>(*value));
}

bool plan_function(PlanBuilder& plan, const ReferenceStep& step, const TableForm& form,
                   const std::string& result) {
  const Node& node = *step.node;
  if (!is_wide(form.input) && !is_wide(form.output)) return false;
  if (form.output.is_sign) return false;
  if (is_pair_with_number(node)) return plan_value_pairs(plan, step, result);
  const std::string input = value_name(node.inputs[node.inputs[0].is_constant() ? 1 : 0]);
  const size_t from = plan.values_of_codes(input, form.input, std::nullopt, node);
  const Layout layout = plan.place(from).layout;
  if (const Clamp* const clamp = clamp_of(node)) {
    const size_t to = plan.add_values_place(result, layout);
    plan.add(float_elements_step({.end = clamping_end(*clamp)}, plan.read(from), to), node.name,
             "elements float");
    plan_rounded(plan, to, form.output, node, result);
    return true;
  }
  const size_t found = plan.add_values_place(result, layout, is_wide(form.output) ? form.output : CodeType());
  plan.add(values_by_code(plan.kernels(), form, plan.read(from), found), node.name,
           fmt::format("table {}", plan.kernels().name));
  if (is_wide(form.output)) {
    plan.set_place(result, found);
  } else {
    plan_rounded(plan, found, form.output, node, result);
  }
  return true;
}

bool plan_wide_mean(PlanBuilder& plan, const AverageForm& form, const Node& node, const std::string& result) {
  const std::string input = value_name(node.inputs[0]);
  if (!is_wide(form.input) || form.fixed_point || form.output.is_sign || !plan.may_be_pooled(input))
    return false;
  PoolingWindows windows = pooling_windows(node, plan.shape(input));
  if (!have_elements(windows)) return false;
  if (most_elements(windows) * form.input.size() > std::numeric_limits<int32_t>::max()) return false;
  const size_t from = plan.place_of(input, form.input, Layout::kChannelsLast, node);
  const bool stays_wide = is_wide(form.output);
  const size_t mean =
      plan.add_values_place(result, Layout::kChannelsLast, stays_wide ? form.output : CodeType());
  plan.add(mean_wide_step(form, std::move(windows), plan.read(from), mean), node.name, "mean");
  if (stays_wide) {
    plan.set_place(result, mean);
  } else {
    plan_rounded(plan, mean, form.output, node, result);
  }
  return true;
}

/// Plans nodes that leave codes in their type.
bool plan_kept(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  if (step.form || step.engine != NodeEngine::kMoves || node.inputs.empty() || node.inputs[0].is_constant())
    return false;
  const std::string input = value_name(node.inputs[0]);
  const std::optional<CodeType> type = step.inputs[0] ? step.inputs[0] : plan.value(input).type;
  if (!is_wide(type) || (step.outputs[0] && step.outputs[0] != type)) return false;
  if (is_rectifier(node)) {
    const size_t from = plan.place_of(input, *type, std::nullopt, node);
    const size_t to = plan.add_values_place(result, plan.place(from).layout, *type);
    plan.add(float_elements_step({.end = clamping_end(*clamp_of(node))}, plan.read(from), to), node.name,
             "elements float");
    plan.set_place(result, to);
    return true;
  }
  if (is_pooling(node, Pooling::Of::kLargest) && plan.may_be_pooled(input)) {
    PoolingWindows windows = pooling_windows(node, plan.shape(input));
    if (!have_elements(windows)) return false;
    const size_t from = plan.place_of(input, *type, Layout::kChannelsLast, node);
    const size_t to = plan.add_values_place(result, Layout::kChannelsLast, *type);
    plan.add(largest_values_step(std::move(windows), plan.read(from), to), node.name, "largest float");
    plan.set_place(result, to);
    return true;
  }
  return plan_movement(plan, step, *type, result);
}

}  // namespace

void plan_rounded_steps(PlanBuilder& plan, size_t from, const CodeType& type, const Node& node,
                        const std::string& result) {
  round_to_wide(plan, from, 1, type, node, result);
}

void plan_rounded(PlanBuilder& plan, size_t from, const CodeType& type, const Node& node,
                  const std::string& result) {
  if (is_wide(type)) {
    round_to_wide(plan, from, type.scale, type, node, result);
    return;
  }
  plan.set_place(result, plan.rounded_bytes(from, type, plan.shape(result), node));
}

bool plan_wide(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  if (!step.form) return plan_kept(plan, step, result);
  if (const auto* pair = std::get_if<PairForm>(&*step.form))
    return plan_wide_pairs(plan, step, *pair, result);
  if (const auto* table = std::get_if<TableForm>(&*step.form))
    return plan_function(plan, step, *table, result);
  if (const auto* mean = std::get_if<AverageForm>(&*step.form))
    return plan_wide_mean(plan, *mean, node, result);
  return false;
}

}  // namespace detent
