#include "detent/graph/table_layer.h"

#include <algorithm>

#include "detent/graph/operators.h"

namespace detent {

std::optional<int32_t> TableLayerView::code_of(float value) const {
  const auto found = std::ranges::lower_bound(input_values, value);
  if (found == input_values.end() || *found != value) return std::nullopt;
  return static_cast<int32_t>(found - input_values.begin());
}

int32_t TableLayerView::output_code(int64_t output, int32_t sum) const {
  if (!has_thresholds()) return sum;
  const std::span<const int32_t> steps = thresholds_of(output);
  return static_cast<int32_t>(std::ranges::upper_bound(steps, sum) - steps.begin());
}

TableLayerView table_layer_view(const Node& node) {
  const Tensor& inputs = node.find_parameter("inputs")->tensor;
  const Tensor& tables = node.find_parameter("tables")->tensor;
  TableLayerView view{.outputs = inputs.dim(0),
                      .terms = inputs.dim(1),
                      .fan_in = inputs.dim(2),
                      .entries = tables.dim(2),
                      .thresholds = -1,
                      .input_values = node.find_parameter("input_values")->tensor.values<float>(),
                      .all_inputs = inputs.values<int64_t>(),
                      .all_tables = tables.values<int32_t>(),
                      .all_thresholds = {},
                      .output_values = {},
                      .scale = number_attribute(node, "scale")};
  if (const Parameter* thresholds = node.find_parameter("thresholds")) {
    view.thresholds = thresholds->tensor.dim(1);
    view.all_thresholds = thresholds->tensor.values<int32_t>();
  }
  if (const Parameter* values = node.find_parameter("output_values"))
    view.output_values = values->tensor.values<float>();
  return view;
}

SumRange table_sum_range(const TableLayerView& layer, int64_t output) {
  SumRange range;
  for (int64_t term = 0; term < layer.terms; ++term) {
    const auto [least, most] = std::ranges::minmax(layer.table_of(output, term));
    range.least += least;
    range.most += most;
  }
  return range;
}

std::optional<int64_t> table_entries(int64_t levels, int64_t fan_in) {
  int64_t entries = 1;
  for (int64_t k = 0; k < fan_in && levels > 1; ++k) {
    entries *= levels;
    if (entries > kMostTableEntries) return std::nullopt;
  }
  return entries;
}

}  // namespace detent
