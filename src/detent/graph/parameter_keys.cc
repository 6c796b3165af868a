#include "detent/graph/parameter_keys.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace detent {

void make_parameter_keys_unique(Graph& graph) {
  std::unordered_map<std::string, const Parameter*> owners;
  const auto is_another = [&](const Node& node, const auto& entry) {
    const auto owner = owners.find(node.parameter_key(entry.first));
    return owner != owners.end() && owner->second != &*entry.second;
  };
  for (Node& node : graph.nodes()) {
    const bool clashes =
        std::ranges::any_of(node.parameters, [&](const auto& entry) { return is_another(node, entry); });
    if (clashes) node.target = node.name;
    for (const auto& [name, parameter] : node.parameters)
      owners.emplace(node.parameter_key(name), &*parameter);
  }
}

}  // namespace detent
