#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "detent/core/error.h"
#include "detent/engine/plan/plan_nodes.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

bool multipliers_fit(const AverageForm& form, const PoolingWindows& windows) {
  int64_t least = 1;
  for (const std::vector<PoolingWindow>& dimension : windows)
    least *= std::ranges::min(dimension, {}, &PoolingWindow::counted).counted;
  try {
    static_cast<void>(form.multiplier(least));
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

bool have_elements(const PoolingWindows& windows) {
  return std::ranges::all_of(windows, [](const std::vector<PoolingWindow>& dimension) {
    return std::ranges::all_of(dimension,
                               [](const PoolingWindow& w) { return w.end > w.begin && w.counted > 0; });
  });
}

int64_t most_elements(const PoolingWindows& windows) {
  int64_t elements = 1;
  for (const auto& dimension : windows) {
    int64_t most = 0;
    for (const PoolingWindow& window : dimension) most = std::max(most, window.end - window.begin);
    elements *= most;
  }
  return elements;
}

bool plan_table(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  auto table = byte_table(step);
  if (!table) return false;
  const auto& form = std::get<TableForm>(*step.form);
  const NodeInput& input = step.node->inputs[step.node->inputs[0].is_constant() ? 1 : 0];
  const size_t from = plan.place_of(value_name(input), form.input, std::nullopt, *step.node);
  const size_t to =
      plan.add_place({.shape = plan.shape(result), .layout = plan.place(from).layout, .type = form.output});
  plan.add(table_step(plan.kernels(), std::move(*table), plan.read(from), to), step.node->name,
           fmt::format("table {}", plan.kernels().name));
  plan.set_place(result, to);
  return true;
}

bool plan_mean(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const auto* form = step.form ? std::get_if<AverageForm>(&*step.form) : nullptr;
  if (form == nullptr || !fits_bytes(form->input) || !fits_bytes(form->output) || form->output.is_sign)
    return false;
  const std::string input = value_name(step.node->inputs[0]);
  if (!plan.may_be_pooled(input)) return false;
  PoolingWindows windows = pooling_windows(*step.node, plan.shape(input));
  if (!have_elements(windows)) return false;
  if (most_elements(windows) * 255 > std::numeric_limits<int32_t>::max()) return false;
  if (form->fixed_point && !multipliers_fit(*form, windows)) return false;
  const size_t from = plan.place_of(input, form->input, Layout::kChannelsLast, *step.node);
  const size_t to =
      plan.add_place({.shape = plan.shape(result), .layout = Layout::kChannelsLast, .type = form->output});
  plan.add(mean_step(plan.kernels(), *form, std::move(windows), plan.read(from), to), step.node->name,
           fmt::format("mean {}", plan.kernels().name));
  plan.set_place(result, to);
  return true;
}

bool plan_moved(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  if (step.form || step.engine != NodeEngine::kMoves || step.node->inputs.empty() ||
      step.node->inputs[0].is_constant())
    return false;
  const std::string input = value_name(step.node->inputs[0]);
  std::optional<CodeType> type = step.inputs[0];
  if (!type) type = plan.value(input).type;
  // Values that are rounded once they are moved may as well be before.
  if (!type && trait<Movement>(*step.node) != nullptr && plan.may_have_values(input)) type = step.outputs[0];
  if (!type || !fits_bytes(*type) || (step.outputs[0] && step.outputs[0] != type)) return false;
  if (moved_type(*step.node, *type) != *type) return false;
  const auto to_place = [&](Layout layout) {
    return plan.add_place({.shape = plan.shape(result), .layout = layout, .type = *type});
  };
  if (is_rectifier(*step.node)) {
    const size_t from = plan.place_of(input, *type, std::nullopt, *step.node);
    std::vector<uint8_t> table(256);
    for (size_t i = 0; i < table.size(); ++i)
      table[i] = std::max(static_cast<uint8_t>(i), static_cast<uint8_t>(type->zero_point - type->low));
    const size_t to = to_place(plan.place(from).layout);
    plan.add(table_step(plan.kernels(), std::move(table), plan.read(from), to), step.node->name,
             fmt::format("table {}", plan.kernels().name));
    plan.set_place(result, to);
    return true;
  }
  if (is_pooling(*step.node, Pooling::Of::kLargest) && plan.may_be_pooled(input)) {
    PoolingWindows windows = pooling_windows(*step.node, plan.shape(input));
    if (!have_elements(windows)) return false;
    const size_t from = plan.place_of(input, *type, Layout::kChannelsLast, *step.node);
    const size_t to = to_place(Layout::kChannelsLast);
    plan.add(largest_step(plan.kernels(), std::move(windows), plan.read(from), to), step.node->name,
             fmt::format("largest {}", plan.kernels().name));
    plan.set_place(result, to);
    return true;
  }
  return plan_movement(plan, step, *type, result);
}

}  // namespace detent
