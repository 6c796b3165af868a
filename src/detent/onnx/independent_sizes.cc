#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/onnx/import_steps.h"

// A model may give the batch another name in each input, though the nodes take no other size: it then gets
// one name. Or it may give one name to sizes that have nothing to do with each other, such as the numbers of
// images and of texts that a network compares. ONNX Runtime takes arrays of any sizes that the nodes take,
// whatever the names: such sizes get names of their own, where outputs follow from both.

namespace detent {
namespace {

using InputNames = std::vector<std::string>;

/// Inputs by the names of their open sizes, in the graph's order.
std::map<std::string, InputNames> inputs_by_size(const Graph& graph) {
  std::map<std::string, InputNames> inputs;
  for (const std::string& input : graph.input_names()) {
    for (const Dimension& dim : graph.input_types().find(input)->second.shape) {
      InputNames& sharing = inputs[dim.symbol];
      if (dim.is_named() && (sharing.empty() || sharing.back() != input)) sharing.push_back(input);
    }
  }
  return inputs;
}

/// Which inputs may have other sizes than the rest: all from one on, or one alone.
std::vector<InputNames> parts_of(const InputNames& inputs) {
  std::vector<InputNames> parts;
  for (size_t i = 1; i < inputs.size(); ++i) parts.push_back({inputs[i]});
  for (size_t i = 1; i + 1 < inputs.size(); ++i)
    parts.emplace_back(inputs.begin() + static_cast<int64_t>(i), inputs.end());
  return parts;
}

/// Shapes of the outputs; nothing where the network does not take the sizes.
std::optional<std::vector<Shape>> output_shapes(const Graph& graph, const NamedSizes& sizes) {
  try {
    const ValueTypes values = infer_shapes(graph, sizes);
    std::vector<Shape> shapes;
    for (const NodeInput& output : graph.nodes().back().inputs)
      shapes.push_back(values.at(value_name(output)).shape);
    return shapes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The graph with another name for the size in these inputs; nothing where it does not take another one, or
/// that one changes no output, as a mask of which rows are read would not.
std::optional<Graph> with_own_size(const Graph& graph, const std::string& symbol, const InputNames& inputs) {
  std::map<std::string, TensorType> types;
  std::string own;
  int64_t usual = 1;
  for (const std::string& input : inputs) {
    TensorType& type = types[input] = graph.input_types().find(input)->second;
    for (size_t d = 0; d < type.shape.size(); ++d) {
      Dimension& dim = type.shape[d];
      if (dim.symbol != symbol) continue;
      if (own.empty()) own = fmt::format("{}_{}", input, d);
      dim.symbol = own;
      usual = std::max<int64_t>(dim.size, 2);
    }
  }
  Graph apart = with_input_types(graph, types);
  const auto more = output_shapes(apart, {{symbol, usual}, {own, usual + usual / 2}});
  if (!more) return std::nullopt;
  const auto most = output_shapes(apart, {{symbol, usual}, {own, 2 * usual}});
  return most && *most != *more ? std::optional(std::move(apart)) : std::nullopt;
}

/// One part of the inputs that share a size, where there is one that need not.
std::optional<Graph> with_size_apart(const Graph& graph) {
  constexpr size_t kMostSharing = 8;  // each takes an inference of all shapes
  for (const auto& [symbol, inputs] : inputs_by_size(graph)) {
    if (inputs.size() > kMostSharing) continue;
    for (const InputNames& part : parts_of(inputs))
      if (std::optional<Graph> apart = with_own_size(graph, symbol, part)) return apart;
  }
  return std::nullopt;
}

/// The symbol of the first size where that is open, else "".
std::string first_symbol(const TensorType& type) { return type.shape.empty() ? "" : type.shape[0].symbol; }

/// Whether the network takes the same two sizes alone; of one row and several, nodes may repeat the one.
bool are_one_size(const Graph& graph, const std::string& a, const std::string& b) {
  const auto fits = [&](int64_t of_a, int64_t of_b) {
    return output_shapes(graph, {{a, of_a}, {b, of_b}}).has_value();
  };
  return fits(2, 2) && fits(3, 3) && !fits(2, 3) && !fits(3, 2) && !fits(2, 1) && !fits(1, 2);
}

/// The graph with another name for a size.
Graph with_renamed_size(const Graph& graph, const std::string& from, const std::string& to) {
  std::map<std::string, TensorType> types;
  for (const std::string& input : graph.input_names()) {
    types[input] = graph.input_types().find(input)->second;
    for (Dimension& dim : types[input].shape)
      if (dim.symbol == from) dim.symbol = to;
  }
  return with_input_types(graph, types);
}

}  // namespace

Graph with_joined_batches(Graph graph) {
  constexpr size_t kMostNames = 8;  // each takes inferences of all shapes
  std::set<std::string> names;
  for (const auto& [input, type] : graph.input_types()) names.insert(first_symbol(type));
  if (!names.contains(kBatchName) || names.size() > kMostNames) return graph;
  for (const std::string& name : names) {
    if (name.empty() || name == kBatchName || !are_one_size(graph, kBatchName, name)) continue;
    graph = with_renamed_size(graph, name, kBatchName);
  }
  return graph;
}

Graph with_independent_sizes(Graph graph) {
  while (std::optional<Graph> apart = with_size_apart(graph)) graph = std::move(*apart);
  return graph;
}

}  // namespace detent
