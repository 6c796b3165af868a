#include "detent/passes/post_training/quantized_nodes.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/graph/operators.h"
#include "detent/passes/post_training/loop_bodies.h"
#include "detent/passes/post_training/static_quantize.h"

namespace detent {
namespace {

std::vector<std::string> names_with_bodies(const Graph& graph) {
  std::vector<std::string> names;
  for_each_graph(graph, "", [&](const Graph& each, const std::string& prefix) {
    for (const std::string& name : each.node_names()) names.push_back(prefix + name);
  });
  return names;
}

/// Whether the pattern names a loop whose body the nodes after `prefix`, "outer.inner.", are in.
bool names_loop_of(const NamePattern& pattern, const std::string& prefix) {
  for (size_t end = prefix.find('.'); end != std::string::npos; end = prefix.find('.', end + 1))
    if (pattern.matches(prefix.substr(0, end))) return true;
  return false;
}

/// Nodes that keep_float names, by themselves or with the loop that they are in.
NodeNames float_nodes(const Graph& graph, const StaticQuantizeOptions& options, const std::string& prefix,
                      const std::string& where) {
  NodeNames in_float;
  for (const std::string& text : options.keep_float) {
    const NamePattern pattern(text, where + ": key \"keep_float\"");
    const bool all = names_loop_of(pattern, prefix);
    for (const Node& node : graph.nodes())
      if (all || pattern.matches(prefix + node.name)) in_float.insert(node.name);
  }
  return in_float;
}

/// Nodes by name, or of many how often each operator occurs: "35 x gather, 7 x where".
std::string nodes_text(const std::vector<const Node*>& nodes) {
  constexpr size_t kMostNamed = 5;
  std::vector<std::string> texts;
  if (nodes.size() <= kMostNamed) {
    for (const Node* node : nodes) texts.push_back(fmt::format("{} ({})", node->name, node->op));
    return fmt::format("{}", fmt::join(texts, ", "));
  }
  std::map<std::string, int64_t> counts;
  for (const Node* node : nodes) ++counts[node->op];
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), &std::pair<std::string, int64_t>::second);
  for (const auto& [op, count] : sorted) texts.push_back(fmt::format("{} x {}", count, op));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Nodes that there are instead of layers with weights, and why they are in float.
std::string nothing_to_quantize(const Graph& graph, const CodePlan& plan, const NodeNames& kept) {
  std::vector<const Node*> kept_in_float;
  std::vector<const Node*> without_form;
  for (const std::string& name : plan.in_float)
    (kept.contains(name) ? kept_in_float : without_form).push_back(&graph.node(name));
  if (!kept_in_float.empty()) return "keep_float holds " + nodes_text(kept_in_float);
  if (!without_form.empty())
    return fmt::format("in float are {}, which have no integer form", nodes_text(without_form));
  std::vector<const Node*> others;
  for (const Node& node : graph.nodes())
    if (role_of(node) == OperatorRole::kComputes) others.push_back(&node);
  if (others.empty()) return "the network computes nothing";
  return fmt::format("it has {}, of which none multiplies and sums with constant weights",
                     nodes_text(others));
}

}  // namespace

CodePlan plan_without_samples(const Graph& graph, const StaticQuantizeOptions& options,
                              const std::string& prefix, const std::string& where) {
  return plan_codes(graph, float_nodes(graph, options, prefix, where));
}

CodePlan plan_nodes(const Graph& graph, const StaticQuantizeOptions& options, const NodeBitsMatcher& bits,
                    const std::string& where, const NodeNames& kept, const NodeNames& unrounded) {
  NodeNames in_float = float_nodes(graph, options, bits.prefix(), where);
  for (const std::string& name : kept)
    if (bits.find(name) == nullptr) in_float.insert(name);
  CodePlan plan = plan_codes(graph, in_float, unrounded);
  if (!bits.prefix().empty()) return plan;
  if (!plan.has_weights() && !has_layers_in_bodies(graph, options, where)) {
    throw NothingToQuantize(fmt::format("{}: no linear layer or convolution is left to quantize: {}", where,
                                        nothing_to_quantize(graph, plan, in_float)));
  }
  if (options.first_last_layers != FirstLastLayers::kFloat || plan.weighted.empty()) return plan;
  for (const size_t edge : {plan.weighted.front(), plan.weighted.back()}) {
    const std::string& name = graph.nodes()[edge].name;
    if (bits.find(name) == nullptr) in_float.insert(name);
  }
  return plan_codes(graph, in_float, unrounded);
}

bool has_layers_in_bodies(const Graph& graph, const StaticQuantizeOptions& options,
                          const std::string& where) {
  bool has_layers = false;
  for_each_graph(graph, "", [&](const Graph& each, const std::string& prefix) {
    if (!prefix.empty() && plan_without_samples(each, options, prefix, where).has_weights())
      has_layers = true;
  });
  return has_layers;
}

NodesWithWidths nodes_with_widths(const Graph& graph, const CodePlan& plan,
                                  const StaticQuantizeOptions& options, const std::string& where) {
  NodesWithWidths nodes;
  for_each_graph(graph, "", [&](const Graph& each, const std::string& prefix) {
    const CodePlan own = prefix.empty() ? plan : plan_without_samples(each, options, prefix, where);
    prefix.empty() || own.has_weights() ? nodes.add(each, own, prefix) : nodes.add_in_float(each, prefix);
  });
  return nodes;
}

void check_keep_float(const Graph& graph, const StaticQuantizeOptions& options, const std::string& where) {
  const std::vector<std::string> names = names_with_bodies(graph);
  std::set<std::string> in_float;
  for (const std::string& text : options.keep_float) {
    const NamePattern pattern(text, where + ": key \"keep_float\"");
    const size_t before = in_float.size();
    size_t matches = 0;
    for (const std::string& name : names) {
      if (!pattern.matches(name)) continue;
      in_float.insert(name);
      ++matches;
    }
    if (matches == 0) fail("{}: key \"keep_float\": {}", where, unmatched_pattern_message(text, names));
    if (in_float.size() == before) {
      fail("{}: key \"keep_float\": \"{}\" matches no node that others do not (nodes: {})", where, text,
           listed_names(names, text));
    }
  }
}

void check_unquantized(const Graph& graph, const std::string& where) {
  std::vector<std::string> quantized;
  for (const Node& node : graph.nodes()) {
    if (!node.quantization.empty()) quantized.push_back(fmt::format("\"{}\"", node.name));
  }
  if (quantized.empty()) return;
  const char* const advice = "ranges are those of the float network, so begin with that";
  if (quantized.size() == 1) fail("{}: node {} is quantized already: {}", where, quantized[0], advice);
  fail("{}: the network is quantized already (nodes {}): {}", where, listed_names(quantized), advice);
}

}  // namespace detent
