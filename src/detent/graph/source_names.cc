#include "detent/graph/source_names.h"

namespace detent {

std::string source_name_or(const Node& node, size_t i, const std::string& own_name) {
  const bool has_name = i < node.source_names.size() && !node.source_names[i].empty();
  return has_name ? node.source_names[i] : own_name;
}

}  // namespace detent
