#include "detent/graph/source_names.h"

namespace detent {

std::string source_name_or(const Node& node, size_t i, const std::string& own_name) {
  const bool has_name = i < node.source_names.size() && !node.source_names[i].empty();
  return has_name ? node.source_names[i] : own_name;
}

std::string source_name(const Graph& graph, const NodeInput& value) {
  return source_name_or(graph.node(value.node), value.result, value_name(value));
}

}  // namespace detent
