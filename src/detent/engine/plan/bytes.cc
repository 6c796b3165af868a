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

/// Whether the result is one input in another order: who reads it may do so where it lies.
bool is_whole_view(const MovedInputs& moved, const Shape& result) {
  if (moved.copies.size() != 1) return false;
  const StridedCopy& copy = moved.copies.front();
  const StridedView whole = StridedView::of(result);
  return copy.to.shape == result && copy.to.strides == whole.strides && copy.to.offset == 0;
}

/// Slices, permutations, concatenations: of inputs of one type.
bool plan_movement(PlanBuilder& plan, const ReferenceStep& step, const std::string& result,
                   const CodeType& type) {
  const Node& node = *step.node;
  const auto* movement = trait<Movement>(node);
  if (movement == nullptr || !movement->copies) return false;
  constexpr int64_t kMostElements = int64_t{1} << 22;  // whose places are noted one by one
  if (element_count(plan.shape(result)) > kMostElements) return false;
  std::vector<std::string> inputs;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].is_constant() || !plan.is_tensor(value_name(node.inputs[i]))) continue;
    inputs.push_back(value_name(node.inputs[i]));
    shapes.push_back(plan.shape(inputs.back()));
    const std::optional<CodeType> own = step.inputs[i] ? step.inputs[i] : plan.value(inputs.back()).type;
    if (own != type) return false;
  }
  MovedInputs moved{.places = {}, .copies = movement->copies(node, shapes, plan.shape(result))};
  if (is_whole_view(moved, plan.shape(result))) {
    PlannedValue value = plan.new_value(result);
    value.type = type;
    value.move = PendingMove{&node, inputs.front(), type, moved.copies.front().from};
    plan.add_value(result, std::move(value));
    return true;
  }
  // As its inputs lie, where the result can.
  std::optional<Layout> layout;
  for (const std::string& input : inputs) {
    moved.places.push_back(plan.place_of(input, type, std::nullopt, node));
    if (!layout) layout = plan.place(moved.places.back()).layout;
  }
  if (!plan.has_positions(result)) layout = Layout::kRows;
  for (const size_t place : moved.places) plan.read(place);
  const size_t to = plan.add_place({.shape = plan.shape(result), .layout = *layout, .type = type});
  plan.add(movement_step(std::move(moved), to), node.name, "moved bytes");
  plan.set_place(result, to);
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
  if (!is_view(*step.node)) return plan_movement(plan, step, result, *type);
  const size_t from = plan.place_of(input, *type, std::nullopt, *step.node);
  const size_t to = to_place(Layout::kRows);
  plan.add(copy_step(plan.read(from), to), step.node->name, "copy");
  plan.set_place(result, to);
  return true;
}

}  // namespace detent
