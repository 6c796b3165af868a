#include "detent/cli/network_info.h"
#include "detent/graph/loop.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/node_form.h"
#include "detent/inference/plan.h"
#include "detent/passes/pass.h"
#include "detent/passes/post_training/code_groups.h"

namespace detent {
namespace {

/// As it is when its formats are chosen: batch norms that can be are parts of layers.
Graph prepared(Graph graph) {
  PassContext context;
  context.report = [](const std::string&) {};
  context.warn = [](const std::string&) {};
  find_pass("fuse_batch_norm").run(graph, Table{{"check", false}}, context);
  return graph;
}

std::string why_in_float(const Node& node, const ValueTypes& types) {
  if (trait<MatrixProduct>(node) != nullptr) {
    if (node.inputs[0].is_constant()) return "multiplies a number";
    return fmt::format("sums of {} products, more than fit into 32 bits",
                       types.at(value_name(node.inputs[0])).shape.back());
  }
  const auto* pair = trait<PairOperation>(node);
  if (pair != nullptr && *pair == PairOperation::kDiv) return "divides by what is computed";
  return node.body != nullptr ? "no layers in its body" : "no integer form";
}

/// As quantization would leave them, with those in bodies of loops that have layers.
void add_float_nodes(const Graph& ready, const std::string& prefix, std::vector<UnquantizedNode>& nodes) {
  const ValueTypes types = infer_shapes(ready);
  for (const std::string& name : plan_codes(ready, {}).in_float) {
    const Node& node = ready.node(name);
    if (node.body != nullptr && plan_codes(*node.body, {}).has_weights()) {
      add_float_nodes(*node.body, prefix + name + ".", nodes);
    } else if (types.at(name).dtype == DType::kFloat32) {
      nodes.push_back({prefix + name, node.op, why_in_float(node, types)});
    }
  }
}

}  // namespace

std::vector<UnquantizedNode> float_nodes(const Graph& graph) {
  std::vector<UnquantizedNode> nodes;
  if (graph.requantization()) {
    for (PlannedNode& node : integer_plan_with_bodies(graph)) {
      if (node.engine == NodeEngine::kFloat)
        nodes.push_back({std::move(node.node), std::move(node.op), std::move(node.why)});
    }
    return nodes;
  }
  if (holds_quantizers(graph)) return nodes;
  add_float_nodes(prepared(graph), "", nodes);
  return nodes;
}

std::string float_nodes_text(const std::vector<UnquantizedNode>& nodes) {
  std::vector<std::pair<std::string, size_t>> counts;
  for (const UnquantizedNode& node : nodes) {
    const std::string text = fmt::format("{} ({})", node.op, node.why);
    const auto found = std::ranges::find(counts, text, &std::pair<std::string, size_t>::first);
    found == counts.end() ? static_cast<void>(counts.emplace_back(text, 1))
                          : static_cast<void>(++found->second);
  }
  std::vector<std::string> parts;
  for (const auto& [text, count] : counts) parts.push_back(fmt::format("{} x {}", count, text));
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace detent
