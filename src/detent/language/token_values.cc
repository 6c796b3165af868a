#include "detent/language/token_values.h"

namespace detent {

ValueTypes values_of_tokens(const Graph& graph, int64_t tokens) {
  NamedSizes sizes;
  for (const auto& [name, type] : graph.input_types()) {
    for (const Dimension& dimension : type.shape) {
      if (dimension.is_named()) sizes[dimension.symbol] = dimension.symbol == kBatchName ? 1 : tokens;
    }
  }
  return infer_shapes(graph, sizes);
}

}  // namespace detent
