#include <algorithm>
#include <random>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/graph/table_layer.h"
#include "detent/graph/traits.h"
#include "detent/passes/passes.h"
#include "detent/passes/truth_tables/lutnet_layer.h"

// Layers whose weights and inputs are (residual) binary become layers of tables, to be trained on (LUTNet):
//
//     sum of XNOR(w, x)  ->  sum of f(x, x', x'', ...), f a table of `inputs` signs
//
// The tables begin as what the products are, so the network computes what it did, but for the connections
// that are pruned. Layers of tables of real numbers, from an earlier run of this pass with binarize = false
// and a training, get tables of signs.

namespace detent {
namespace {

struct LutnetOptions {
  int64_t inputs = 4;
  double prune = 0.5;
  bool keep_pruned = true;
  int64_t amplitude_width = 6;
  bool binarize = true;
  std::vector<std::string> layers;
  int64_t seed = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("inputs", self.inputs, "inputs of a table", Between{1, kMostTableInputs});
    visit("prune", self.prune, "share of each layer's smallest weights to prune", Between{0, 0.999});
    visit("keep_pruned", self.keep_pruned, "tables begin with the weights of pruned connections they read");
    visit("amplitude_width", self.amplitude_width,
          "bits of a table's contribution to a sum, in units of a power of two; 0: any float32, to be "
          "rounded later",
          Between{0, 16});
    visit("binarize", self.binarize, "tables of signs; otherwise of real numbers, for a first training");
    visit("layers", self.layers, "regular expressions for layers; empty: all binary ones");
    visit("seed", self.seed, "seed of the additional inputs of tables", Between{0, 1e15});
  }

  void check(const std::string& where) const {
    for (const std::string& text : layers) NamePattern(text, where + ": key \"layers\"");
  }
  LutnetLayer layer() const { return {inputs, prune, keep_pruned, amplitude_width, binarize}; }
};

/// Tables of real numbers become their signs; whether they did.
bool binarize_tables(Node& node, const LutnetOptions& options) {
  const auto tables = trained_tables(node);
  if (!tables || tables->binarized || !options.binarize) return false;
  node.attributes["binarize"] = true;
  node.attributes["unit"] = amplitude_unit(node.find_parameter("amplitude")->tensor, options.amplitude_width);
  return true;
}

/// The layers of signs that are named, or else all that can become tables; why others cannot is reported.
std::vector<std::string> chosen(const Graph& graph, const LutnetOptions& options,
                                const PassContext& context) {
  const std::string& where = context.where;
  std::vector<std::string> names;
  for (const std::string& text : options.layers) {
    const NamePattern pattern(text, where);
    const auto matches = [&](const std::string& name) { return pattern.matches(name); };
    if (std::ranges::none_of(graph.node_names(), matches))
      fail("{}: key \"layers\": {}", where, unmatched_pattern_message(text, graph.node_names()));
  }
  for (const Node& node : graph.nodes()) {
    const auto matches = [&](const std::string& text) { return NamePattern(text, where).matches(node.name); };
    if (!options.layers.empty() && std::ranges::none_of(options.layers, matches)) continue;
    if (trained_tables(node)) continue;
    const std::string obstacle = lutnet_obstacle(node, options.layer());
    if (!obstacle.empty() && !options.layers.empty())
      fail("{}: node \"{}\" cannot become tables: {}", where, node.name, obstacle);
    if (obstacle.empty()) {
      names.push_back(node.name);
    } else if (is_weighted_sum(node)) {
      context.report(fmt::format("lutnet: {} stays: {}\n", node.name, obstacle));
    }
  }
  return names;
}

void run_lutnet(Graph& graph, const LutnetOptions& options, PassContext& context) {
  Graph converted = graph;
  std::mt19937_64 draw(static_cast<uint64_t>(options.seed));
  const std::vector<std::string> layers = chosen(graph, options, context);
  const auto binarized =
      std::ranges::count_if(converted.nodes(), [&](Node& node) { return binarize_tables(node, options); });
  if (layers.empty() && binarized == 0) {
    fail(
        "{}: no layer has binary or residual binary weights and inputs: train a network with the quantizers "
        "\"residual_binary2\" first",
        context.where);
  }
  if (binarized > 0) context.report(fmt::format("lutnet: tables of {} layers are signs now\n", binarized));
  for (const std::string& name : layers) {
    const LutnetConnections count = make_lutnet_layer(converted.node(name), options.layer(), draw);
    context.report(fmt::format("lutnet: {}: {} of {} XNORs are tables of {} inputs\n", name, count.kept,
                               count.all, options.inputs));
  }
  verify(converted);
  graph = std::move(converted);
}

}  // namespace

PassInfo lutnet_pass() {
  return make_pass("lutnet", PassKind::kTransform,
                   "turns binary or residual binary layers into layers of trained tables (LUTNet)",
                   run_lutnet, PassStage::kQuantizing);
}

}  // namespace detent
