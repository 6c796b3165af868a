#include "detent/graph/value_sizes.h"

#include <algorithm>
#include <set>
#include <cstddef>

#include "detent/graph/operators.h"

namespace detent {

std::optional<int64_t> fixed_samples(const Graph& graph) {
  bool any_size = false;
  bool any_batch = false;
  std::set<int64_t> fixed;
  for (const auto& [name, type] : graph.input_types()) {
    if (type.shape.empty()) {
      fixed.insert(1);  // several samples may have several numbers
      continue;
    }
    const Dimension& first = type.shape.front();
    if (!first.is_named()) fixed.insert(first.size);
    any_size = any_size || first.is_named();
    any_batch = any_batch || first.symbol == kBatchName;
  }
  if (!fixed.empty()) return fixed.size() > 1 || any_size ? 1 : *fixed.begin();
  return any_size && !any_batch ? std::optional<int64_t>(1) : std::nullopt;
}

int64_t samples_within(const Graph& graph, int64_t bytes, NamedSizes sizes) {
  if (const auto fixed = fixed_samples(graph)) return std::max<int64_t>(1, *fixed);
  sizes[kBatchName] = 1;
  const ValueTypes values = infer_shapes(graph, sizes);
  // Rows of which a run decides how many there are would be those of several samples.
  if (std::ranges::any_of(values, [](const auto& value) { return value.second.is_open(); })) return 1;
  const auto bytes_of = [&](const std::string& value) {
    const Operand& operand = values.at(value);
    if (!operand.is_tensor()) return int64_t{0};
    return element_count(operand.shape) * static_cast<int64_t>(dtype_size(operand.dtype));
  };
  int64_t most = 1;
  for (const Node& node : graph.nodes()) {
    int64_t sum = 0;
    for (const NodeInput& input : node.inputs) {
      if (!input.is_constant()) sum += bytes_of(value_name(input));
    }
    for (size_t i = 0; i < result_count(node); ++i) sum += bytes_of(value_name(node.name, i));
    most = std::max(most, sum);
  }
  return std::max<int64_t>(1, bytes / most);
}

}  // namespace detent
