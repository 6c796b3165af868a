#include "detent/engine/plan/plan_nodes.h"
#include "detent/formats/groups/row_rounding.h"

// What rounds values to formats that have no codes in integer execution.

namespace detent {
namespace {

/// The layout in which the values of a block are adjacent; nullopt where there is none.
std::optional<Layout> layout_of_blocks(const PlanBuilder& plan, const RowRounding& rounding,
                                       const std::string& value) {
  const int64_t rank = std::ssize(plan.shape(value));
  const int64_t axis = rounding.axis() < 0 ? rounding.axis() + rank : rounding.axis();
  if (axis == rank - 1) return Layout::kRows;
  constexpr int64_t kFewChannels = 16;  // so short rows take longer than copies
  const bool is_worth_it = plan.shape(value)[1] >= kFewChannels || plan.has_values(value);
  if (axis == 1 && plan.has_positions(value) && is_worth_it) return Layout::kChannelsLast;
  return std::nullopt;
}

/// Images that are not there yet are brought to where layers take them.
std::optional<Layout> wanted_layout(const PlanBuilder& plan, const std::string& value) {
  constexpr size_t kImageRank = 4;
  const bool is_image = plan.has_positions(value) && plan.shape(value).size() >= kImageRank;
  return is_image && !plan.has_values(value) ? std::optional(Layout::kChannelsLast) : std::nullopt;
}

/// Rounds values where they lie; false where those that share a scale are not adjacent.
bool plan_rows_rounded(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const FormatRounding& given = step.rounds->rounding;
  const std::optional<RowRounding> rounding = given.spec ? RowRounding::of(*given.spec) : std::nullopt;
  if (!rounding) return false;
  const std::string input = value_name(step.node->inputs[0]);
  std::optional<Layout> layout;
  if (rounding->in_blocks()) {
    layout = layout_of_blocks(plan, *rounding, input);
    if (!layout) return false;
  } else {
    layout = wanted_layout(plan, input);
  }
  const size_t from = plan.values_of(input, layout, *step.node);
  const Place& place = plan.place(from);
  const Shape& shape = plan.shape(input);
  const int64_t channels = shape.empty() ? 1 : place.layout == Layout::kRows ? shape.back() : shape[1];
  const int64_t row = rounding->in_blocks() ? std::max<int64_t>(channels, 1) : 1;
  const auto apply = [rounding = *rounding, row](std::span<const float> values, std::span<float> results) {
    rounding.round(values.data(), std::ssize(values), row, results.data());
  };
  const size_t to = plan.add_values_place(result, place.layout);
  plan.add(
      float_rows_step({.function = {.row = row, .apply = apply}, .parameters = nullptr}, plan.read(from), to),
      step.node->name, "fake quantization");
  plan.set_place(result, to);
  return true;
}

}  // namespace

bool plan_rounding(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  const std::string input = value_name(node.inputs[0]);
  if (!plan.is_placeable(result) || !plan.may_have_values(input)) return false;
  if (plan_rows_rounded(plan, step, result)) return true;
  const size_t from = plan.values_of(input, Layout::kRows, node);
  const size_t to = plan.add_values_place(result, Layout::kRows);
  plan.add(rounding_step(step.rounds->rounding, plan.read(from), to), node.name, "fake quantization",
           "its scales follow from all values, or from some that are apart");
  plan.set_place(result, to);
  return true;
}

}  // namespace detent
