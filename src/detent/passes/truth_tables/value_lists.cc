#include "detent/passes/truth_tables/table_chains.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/formats/groups/value_grid.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Ascending, each once; there is one 0.
ValueList sorted(ValueList values) {
  for (float& value : values) value += 0.0F;
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

ValueList grid(const QuantSpec& spec, float sample) {
  const ValueGrid given(spec, Tensor::from<float>({1}, std::vector<float>{sample}), "");
  const auto values = given.values(0);
  return sorted({values.begin(), values.end()});
}

/// Zeros that come in beside the elements of the inputs.
bool adds_zeros(const Node& node) {
  const auto* movement = trait<Movement>(node);
  return movement != nullptr && !movement->is_view() && !movement->joins && node.attributes.contains("pad");
}

}  // namespace

std::optional<ValueList> values_of(const Quantizer& quantizer) {
  try {
    const std::optional<QuantSpec> spec = quantizer.effective_spec();
    if (!spec || spec->granularity != Granularity::kTensor) return std::nullopt;
    // A format that depends on the data gives another list for other data.
    ValueList values = grid(*spec, 1);
    return values == grid(*spec, -3) ? std::optional(std::move(values)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

ValueLists::ValueLists(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kOutput) continue;
    if (auto values = result_of(node)) results_[node.name] = std::move(*values);
  }
}

const ValueList* ValueLists::of_result(const std::string& value) const {
  const auto found = results_.find(value);
  return found == results_.end() ? nullptr : &found->second;
}

std::optional<ValueList> ValueLists::of_operand(const Node& node, size_t input) const {
  if (node.inputs[input].is_constant()) return std::nullopt;
  if (const Quantizer* quantizer = node.find_quantizer(fmt::format("data_in_{}", input)))
    return values_of(*quantizer);
  const ValueList* values = of_result(value_name(node.inputs[input]));
  return values == nullptr ? std::nullopt : std::optional(*values);
}

std::optional<ValueList> ValueLists::result_of(const Node& node) const {
  if (result_count(node) != 1) return std::nullopt;
  if (const Quantizer* quantizer = node.find_quantizer("data_out_0")) return values_of(*quantizer);
  if (trait<TableLayer>(node) != nullptr) {
    const auto results = table_layer_view(node).output_values;
    if (results.empty()) return std::nullopt;
    return sorted({results.begin(), results.end()});
  }
  const Clamp* clamp = clamp_of(node);
  const bool moves = trait<Movement>(node) != nullptr || is_pooling(node, Pooling::Of::kLargest);
  if (!moves && clamp == nullptr) return std::nullopt;
  ValueList all;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].is_constant()) continue;
    const std::optional<ValueList> values = of_operand(node, i);
    if (!values) return std::nullopt;
    all.insert(all.end(), values->begin(), values->end());
  }
  if (adds_zeros(node)) all.push_back(0);
  for (float& value : all) {
    if (clamp != nullptr)
      value = std::min(std::max(value, static_cast<float>(clamp->low)), static_cast<float>(clamp->high));
  }
  return sorted(std::move(all));
}

}  // namespace detent
