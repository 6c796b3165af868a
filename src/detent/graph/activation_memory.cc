#include "detent/graph/activation_memory.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "detent/graph/operators.h"

namespace detent {

int64_t samples_within(const Graph& graph, int64_t bytes) {
  for (const auto& [name, type] : graph.input_types()) {
    const bool is_batched = !type.shape.empty() && type.shape.front().is_named();
    if (!is_batched) return std::numeric_limits<int64_t>::max();
  }
  const ValueTypes values = infer_shapes(graph);
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
