#include "detent/graph/graph_parameters.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "detent/core/convert.h"
#include "detent/core/error.h"

namespace detent {
namespace {

struct KeyedParameter {
  ParameterRef parameter;
  std::vector<std::string> keys;
};

using KeyedParameters = std::vector<KeyedParameter>;

/// The parameters of a graph, shared ones once: tied weights with the keys of all nodes that refer to them,
/// what a quantizer owns with that of its first operand. Keys of a body have the loop's name before them.
void add_keyed_parameters(const Graph& graph, const std::string& prefix, KeyedParameters& parameters) {
  std::unordered_map<const Parameter*, size_t> places;
  for (const Node& node : graph.nodes()) {
    const auto all = node.all_parameters();
    for (size_t i = 0; i < all.size(); ++i) {
      const auto& [name, parameter] = all[i];
      const auto [place, is_new] = places.emplace(&*parameter, parameters.size());
      if (is_new) parameters.push_back({parameter, {}});
      const bool is_owned_by_node = i < node.parameters.size();
      if (!is_new && !is_owned_by_node) continue;
      std::vector<std::string>& keys = parameters[place->second].keys;
      std::string key = prefix + node.parameter_key(name);
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
    }
    if (node.body != nullptr) add_keyed_parameters(*node.body, prefix + node.name + ".", parameters);
  }
}

KeyedParameters keyed_parameters(const Graph& graph) {
  KeyedParameters parameters;
  add_keyed_parameters(graph, "", parameters);
  return parameters;
}

using Tensors = std::unordered_map<std::string, Tensor>;

/// Why `given` is no value for `own`; "" when nothing is.
std::string fault(const Tensor& own, const Tensor& given) {
  const bool is_kind =
      is_floating_point(own.dtype()) ? is_floating_point(given.dtype()) : own.dtype() == given.dtype();
  if (!is_kind) {
    return fmt::format("got {}, expected {}", dtype_name(given.dtype()),
                       is_floating_point(own.dtype()) ? "a float type" : dtype_name(own.dtype()));
  }
  if (own.shape() == given.shape()) return "";
  return fmt::format("got shape {}, expected {}", shape_text(given.shape()), shape_text(own.shape()));
}

/// The tensor in `given` of a parameter that goes by `keys`; faults are added to `faults`.
const Tensor* find_given(const Tensor& own, const std::vector<std::string>& keys, const Tensors& given,
                         const std::vector<std::string>& unused, std::string& faults) {
  const Tensor* found = nullptr;
  for (const std::string& key : keys) {
    const auto it = given.find(key);
    if (it == given.end()) continue;
    const std::string why = fault(own, it->second);
    if (!why.empty()) faults += fmt::format("\n  \"{}\": {}", key, why);
    if (found != nullptr && !found->equals(it->second))
      faults += fmt::format("\n  \"{}\" and \"{}\" differ, and are one weight of the network", keys[0], key);
    found = &it->second;
  }
  if (found == nullptr) {
    const std::string nearest = nearest_name(keys[0], unused);
    faults += fmt::format("\n  missing: \"{}\" {}{}", keys[0], shape_text(own.shape()),
                          nearest.empty() ? "" : fmt::format(" (the file has \"{}\")", nearest));
  }
  return found;
}

/// A module that holds the network as its `net` puts "net." before every name.
StateDict without_outer_prefix(const StateDict& given, const std::unordered_set<std::string>& known) {
  StateDict state = given;
  while (!state.empty()) {
    const std::string prefix = state.front().first.substr(0, state.front().first.find('.') + 1);
    const auto has_prefix = [&](const std::string& name) { return name.starts_with(prefix); };
    if (prefix.empty() || std::ranges::any_of(known, has_prefix)) break;
    if (!std::ranges::all_of(state, has_prefix, &StateDict::value_type::first)) break;
    for (auto& [name, tensor] : state) name.erase(0, prefix.size());
  }
  const auto is_known = [&](const std::string& name) { return known.contains(name); };
  return std::ranges::any_of(state, is_known, &StateDict::value_type::first) ? state : given;
}

}  // namespace

StateDict state_dict(const Graph& graph) {
  StateDict state;
  for (const auto& [parameter, keys] : keyed_parameters(graph)) {
    for (const std::string& key : keys) state.emplace_back(key, parameter->tensor);
  }
  return state;
}

void load_state_dict(Graph& graph, const StateDict& given_state, const std::string& source) {
  for (Node& node : graph.nodes()) {
    if (node.body != nullptr) node.body = std::make_shared<const Graph>(node.body->deep_copy());
  }
  KeyedParameters own = keyed_parameters(graph);
  std::unordered_set<std::string> known;
  for (const auto& [parameter, keys] : own) known.insert(keys.begin(), keys.end());
  const StateDict state = without_outer_prefix(given_state, known);
  const Tensors given(state.begin(), state.end());
  std::vector<std::string> unused;
  for (const auto& [key, tensor] : state) {
    if (!known.contains(key) && !key.ends_with("num_batches_tracked")) unused.push_back(key);
  }

  std::string faults;
  std::vector<const Tensor*> values;
  for (const auto& [parameter, keys] : own)
    values.push_back(find_given(parameter->tensor, keys, given, unused, faults));
  for (const std::string& key : unused) faults += fmt::format("\n  not in the network: \"{}\"", key);
  if (!faults.empty()) fail("{} does not fit the network \"{}\":{}", source, graph.name(), faults);

  for (size_t i = 0; i < own.size(); ++i) {
    Tensor& tensor = own[i].parameter->tensor;
    const Tensor value = is_floating_point(tensor.dtype()) ? to_float32(*values[i]) : *values[i];
    std::ranges::copy(value.bytes(), tensor.bytes().begin());
  }
}

}  // namespace detent
