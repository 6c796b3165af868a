#include "detent/engine/plan/plan_nodes.h"
#include "detent/formats/groups/given_parameters.h"

// Rounding to formats that have no codes in integer execution.

namespace detent {
namespace {

std::optional<RowRounding> row_rounding(const ReferenceStep& step) {
  const std::optional<QuantSpec>& spec = step.rounds->rounding.spec;
  return spec ? RowRounding::of(*spec) : std::nullopt;
}

FloatRows rounded_rows(const RowRounding& rounding, int64_t row) {
  const auto apply = [rounding, row](std::span<const float> values, std::span<float> results) {
    rounding.round(values.data(), std::ssize(values), row, results.data());
  };
  return {.function = {.row = row, .apply = apply}, .parameters = nullptr};
}

/// The layout in which the values of a block are adjacent; nullopt where there is none.
std::optional<Layout> layout_of_blocks(const PlanBuilder& plan, const RowRounding& rounding,
                                       const std::string& value) {
  const int64_t rank = std::ssize(plan.shape(value));
  const int64_t axis = rounding.axis() < 0 ? rounding.axis() + rank : rounding.axis();
  if (axis == rank - 1) return Layout::kRows;
  if (axis != 1 || !plan.has_positions(value)) return std::nullopt;
  constexpr int64_t kFewChannels = 16;  // so short rows take longer than copies
  const bool is_worth_it = plan.shape(value)[1] >= kFewChannels || plan.has_values(value);
  return is_worth_it ? std::optional(Layout::kChannelsLast) : std::nullopt;
}

/// Images that are not there yet are brought to where layers take them.
std::optional<Layout> layout_of_elements(const PlanBuilder& plan, const std::string& value) {
  constexpr size_t kImageRank = 4;
  const bool is_image = plan.has_positions(value) && plan.shape(value).size() >= kImageRank;
  return is_image && !plan.has_values(value) ? std::optional(Layout::kChannelsLast) : std::nullopt;
}

/// Rounds values where they lie, once for all readers; false where those that share a scale are not adjacent.
bool plan_rows_rounded(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const std::optional<RowRounding> rounding = row_rounding(step);
  if (!rounding) return false;
  const std::string input = value_name(step.node->inputs[0]);
  const std::optional<Layout> layout =
      rounding->in_blocks() ? layout_of_blocks(plan, *rounding, input) : layout_of_elements(plan, input);
  if (rounding->in_blocks() && !layout) return false;
  const std::string format = quant_spec_text(*step.rounds->rounding.spec);
  if (const std::optional<size_t> place = plan.rounded_place(input, format)) {
    plan.set_place(result, *place);
    return true;
  }
  const size_t from = plan.values_of(input, layout, *step.node);
  const Layout own = plan.place(from).layout;
  const Shape& shape = plan.shape(input);
  const int64_t channels = shape.empty() ? 1 : own == Layout::kRows ? shape.back() : shape[1];
  const int64_t row = rounding->in_blocks() ? std::max<int64_t>(channels, 1) : 1;
  const size_t to = plan.add_values_place(result, own);
  plan.add(float_rows_step(rounded_rows(*rounding, row), plan.read(from), to), step.node->name,
           "fake quantization");
  plan.note_rounded(input, format, to);
  plan.set_place(result, to);
  return true;
}

}  // namespace

std::optional<FloatRows> rounding_function(const ReferenceStep& step) {
  const std::optional<RowRounding> rounding = step.rounds == nullptr ? std::nullopt : row_rounding(step);
  if (!rounding || rounding->in_blocks()) return std::nullopt;
  return rounded_rows(*rounding, 1);
}

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
