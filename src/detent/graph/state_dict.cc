#include "detent/graph/state_dict.h"

#include <algorithm>
#include <map>

#include "detent/core/convert.h"
#include "detent/core/error.h"

namespace detent {
StateDict state_dict(const Graph& graph) {
  StateDict state;
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, parameter] : node.parameters)
      state.emplace_back(node.parameter_key(name), parameter.tensor);
  }
  return state;
}

void load_state_dict(Graph& graph, const StateDict& state, const std::string& source) {
  const StateDict own = state_dict(graph);
  std::map<std::string, Tensor> given(state.begin(), state.end());
  std::vector<std::string> unused;
  for (const auto& [key, tensor] : state) {
    const bool known = std::ranges::find(own, key, &StateDict::value_type::first) != own.end();
    if (!known && !key.ends_with("num_batches_tracked")) unused.push_back(key);
  }

  std::string faults;
  for (const auto& [key, tensor] : own) {
    const auto it = given.find(key);
    if (it == given.end()) {
      const std::string nearest = nearest_name(key, unused);
      faults += fmt::format("\n  missing: \"{}\" {}{}", key, shape_text(tensor.shape()),
                            nearest.empty() ? "" : fmt::format(" (the file has \"{}\")", nearest));
    } else if (!is_floating_point(it->second.dtype())) {
      faults += fmt::format("\n  \"{}\": got {}, expected a float type", key, dtype_name(it->second.dtype()));
    } else if (it->second.shape() != tensor.shape()) {
      faults += fmt::format("\n  \"{}\": got shape {}, expected {}", key, shape_text(it->second.shape()),
                            shape_text(tensor.shape()));
    }
  }
  for (const std::string& key : unused) faults += fmt::format("\n  not in the network: \"{}\"", key);
  if (!faults.empty()) fail("{} does not fit the network \"{}\":{}", source, graph.name(), faults);

  for (auto [key, tensor] : own) {
    const Tensor value = to_float32(given.at(key));
    std::ranges::copy(value.values<float>(), tensor.values<float>().begin());
  }
}

}  // namespace detent
