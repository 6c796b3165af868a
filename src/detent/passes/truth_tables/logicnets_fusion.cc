#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/core/text_table.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/graph/traits.h"
#include "detent/passes/passes.h"
#include "detent/passes/transform/graph_edits.h"
#include "detent/passes/truth_tables/neuron_tables.h"
#include "detent/passes/truth_tables/table_chains.h"

// Makes each layer with few inputs and few values a layer of truth tables, with the batch norms and
// activations around it:
//
//     rounded -> [batch norm, activation] -> layer -> [batch norm, activation] -> rounded
//     rounded -> lut
//
// (LogicNets, Umuroglu et al. 2020, arXiv:2004.03021). A table is what the network computes, for every
// combination of the values that the weights which are not 0 can meet, so that both give the same bits. In
// the order of the network: what a table gives is what the next one takes.

namespace detent {
namespace {

struct LogicnetsFusionOptions {
  std::vector<std::string> layers;
  int64_t max_address_bits = 16;
  int64_t check_samples = 1024;
  /// Neighbours that the tables of a layer have to include, by layer.
  std::map<std::string, std::vector<std::string>, std::less<>> neighbours;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(
        "layers", self.layers,
        "regular expressions of names of layers that become tables; empty: all with finite lists of values");
    visit("max_address_bits", self.max_address_bits,
          "most address bits of a table: fan-in times bits per value", Between{1, 24});
    visit("check_samples", self.check_samples, "calibration samples compared bit for bit; 0: none",
          Between{0, 1e9});
  }

  static std::vector<FieldDescription> describe() { return describe_fields<LogicnetsFusionOptions>(); }
  static LogicnetsFusionOptions parse(const Table& table, const std::string& where);
  void check(const std::string& where) const {
    for (const std::string& text : layers) NamePattern(text, where + ": key \"layers\"");
  }
  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const;
};

/// MASE's keys of one layer: the neighbours by whether they stand before or after it.
std::vector<std::string> read_neighbours(const Table& entry, const std::string& where) {
  const Value* config = entry.find("config");
  const Table* table = config == nullptr ? nullptr : config->get_if<Table>();
  if (table == nullptr || entry.size() != 1) fail("{}: expected a table \"config\" and nothing else", where);
  std::vector<std::string> names;
  for (const auto& [key, value] : *table) {
    const List* list = value.get_if<List>();
    if (key != "additional_layers_inputs" && key != "additional_layers_outputs")
      fail("{}.config: unknown key \"{}\": expected additional_layers_inputs or additional_layers_outputs",
           where, key);
    if (list == nullptr) fail("{}.config: key \"{}\": expected a list of names of nodes", where, key);
    for (const Value& name : *list) {
      const auto* text = name.get_if<std::string>();
      if (text == nullptr) fail("{}.config: key \"{}\": got {}, expected text", where, key, value_text(name));
      if (*text != "output") names.push_back(*text);  // MASE's mark of a layer after which there is none
    }
  }
  return names;
}

LogicnetsFusionOptions LogicnetsFusionOptions::parse(const Table& table, const std::string& where) {
  LogicnetsFusionOptions options;
  Table plain;
  for (const auto& [key, value] : table) {
    if (const Table* entry = value.get_if<Table>()) {
      options.neighbours[key] = read_neighbours(*entry, fmt::format("{} {}", where, key));
    } else {
      plain[key] = value;
    }
  }
  read_fields(options, plain, where);
  return options;
}

void LogicnetsFusionOptions::check_graph(const Graph& graph, const EarlierPasses& earlier,
                                         const std::string& where) const {
  if (earlier.change_network) return;
  for (const auto& [layer, names] : neighbours) {
    graph.node(layer);
    for (const std::string& name : names) graph.node(name);
  }
  for (const std::string& text : layers) {
    const NamePattern pattern(text, where);
    const auto matches = [&](const Node& node) { return pattern.matches(node.name); };
    if (std::ranges::none_of(graph.nodes(), matches))
      fail("{}: key \"layers\": {}", where, unmatched_pattern_message(text, graph.node_names()));
  }
}

/// Says the table's size before anything is allocated.
void check_size(const TableSize& size, const TableChain& chain, int64_t most, const std::string& where) {
  if (size.address_bits() <= most && table_entries(size.levels, size.fan_in)) return;
  fail(
      "{}: node \"{}\": {} connections of {} values are {} bits of address, expected at most {} (key "
      "\"max_address_bits\"): {} tables of {:.4g} entries would take {:.3g} MB; train with a smaller fan-in, "
      "or with fewer bits",
      where, chain.layer, size.fan_in, size.levels, size.address_bits(), most, size.outputs, size.entries,
      size.bytes() / 1e6);
}

/// Keys that name what cannot be part of the layer's tables, or is not.
void check_neighbours(const LogicnetsFusionOptions& options, const TableChain& chain,
                      const std::string& where) {
  const auto wanted = options.neighbours.find(chain.layer);
  if (wanted == options.neighbours.end()) return;
  for (const std::string& name : wanted->second) {
    const bool is_there = std::ranges::find(chain.head, name) != chain.head.end() ||
                          std::ranges::find(chain.tail, name) != chain.tail.end();
    if (!is_there)
      fail("{}: node \"{}\" is not between \"{}\" and the roundings around it: {}", where, name, chain.layer,
           chain.head.empty() && chain.tail.empty()
               ? "there is none"
               : fmt::format("{}{}{}", fmt::join(chain.head, ", "), chain.head.empty() ? "" : ", ",
                             fmt::join(chain.tail, ", ")));
  }
}

class Fusion {
 public:
  Fusion(Graph& graph, const LogicnetsFusionOptions& options, PassContext& context)
      : graph_(graph), options_(options), context_(context), values_(graph) {}

  void run() {
    for (const std::string& name : graph_.node_names()) {
      const Node* node = graph_.find(name);
      if (node != nullptr && is_chosen(*node)) fuse(*node);
    }
    if (sizes_.empty()) {
      fail("{}: no layer can become tables: {}", context_.where,
           obstacles_.empty() ? "there is no linear, conv1d or conv2d"
                              : fmt::format("{}", fmt::join(obstacles_, "; ")));
    }
    if (std::ranges::all_of(graph_.nodes(), [&](const Node& node) { return has_codes(node); }))
      graph_.set_requantization(Requantization::kFloat);
    verify(graph_);
  }

  std::string report() const {
    TextTable table({"layer", "with", "outputs", "fan-in", "values", "address", "result", "LUT6 at most"});
    double luts = 0;
    for (const auto& [chain, size, bound] : sizes_) {
      std::vector<std::string> with = chain.head;
      with.insert(with.end(), chain.tail.begin(), chain.tail.end());
      table.add_row({chain.layer, fmt::format("{}", fmt::join(with, " ")), fmt::format("{}", size.outputs),
                     fmt::format("{}", size.fan_in), fmt::format("{}", size.levels),
                     fmt::format("{} bits", size.address_bits()), fmt::format("{} bits", size.result_bits),
                     fmt::format("{:.0f}", bound)});
      luts += bound;
    }
    std::string text = fmt::format(
        "logicnets_fusion: {} layers became truth tables, of at most {:.0f} LUTs "
        "of 6 inputs\n{}",
        sizes_.size(), luts, table.to_text());
    for (const std::string& obstacle : obstacles_) text += fmt::format("stays a layer: {}\n", obstacle);
    return text;
  }

 private:
  struct Fused {
    TableChain chain;
    TableSize size;
    double luts;
  };

  bool is_chosen(const Node& node) const {
    const bool is_named = std::ranges::any_of(options_.layers, [&](const std::string& text) {
      return NamePattern(text, context_.where).matches(node.name);
    });
    const bool has_neighbours = options_.neighbours.contains(node.name);
    if ((is_named || has_neighbours) && trait<TableLayer>(node) != nullptr)
      fail("{}: node \"{}\" ({}) is a truth table already", context_.where, node.name, node.op);
    if (has_neighbours && !is_weighted_sum(node))
      fail("{}: node \"{}\" ({}): expected linear, conv1d or conv2d", context_.where, node.name, node.op);
    const bool takes_all = options_.layers.empty() && options_.neighbours.empty();
    return is_weighted_sum(node) && (takes_all || is_named || has_neighbours);
  }

  void fuse(const Node& layer) {
    const auto found = table_chain(graph_, layer, values_);
    if (const auto* why = std::get_if<std::string>(&found)) {
      obstacles_.push_back(fmt::format("{} ({}): {}", layer.name, layer.op, *why));
      return;
    }
    const auto& chain = std::get<TableChain>(found);
    check_neighbours(options_, chain, context_.where);
    const TableSize size = table_size(graph_, chain);
    check_size(size, chain, options_.max_address_bits, context_.where);
    sizes_.push_back({chain, size, lut_bound(chain, size)});
    replace(chain, table_node(graph_, chain, context_.executor()));
  }

  double lut_bound(const TableChain& chain, const TableSize& size) const {
    const Connections connections = connections_of(graph_.node(chain.layer));
    double luts = 0;
    for (int64_t o = 0; o < connections.outputs(); ++o) {
      const auto bits = std::ssize(connections.of(o)) * size.level_bits;
      if (bits > 0) luts += static_cast<double>(size.result_bits) * lut6_bound(bits);
    }
    return luts;
  }

  /// Results of tables need no rounding again.
  void replace(const TableChain& chain, Node tables) {
    const Node& first = graph_.node(chain.first());
    const ValueList* given = values_.of_result(value_name(first.inputs[0]));
    const auto rounding = first.quantization.find("data_in_0");
    if (rounding != first.quantization.end() && (given == nullptr || *given != chain.inputs))
      tables.quantization.emplace("data_in_0", rounding->second);
    tables.inputs = first.inputs;
    std::map<std::string, std::string> replaced;
    std::set<std::string, std::less<>> gone(chain.head.begin(), chain.head.end());
    if (!chain.tail.empty()) {
      replaced[chain.last()] = chain.layer;
      gone.insert(chain.tail.begin(), chain.tail.end());
    }
    graph_.node(chain.layer) = std::move(tables);
    redirect_readers(graph_, replaced);
    graph_.erase_if([&](const Node& node) { return gone.contains(node.name); });
    values_ = ValueLists(graph_);
    drop_rounding(chain);
  }

  /// The network's outputs are read as they are.
  void drop_rounding(const TableChain& chain) {
    Node& output = graph_.nodes().back();
    for (size_t i = 0; i < output.inputs.size(); ++i) {
      const std::string operand = fmt::format("data_in_{}", i);
      const Quantizer* rounding = output.find_quantizer(operand);
      if (output.inputs[i].node == chain.layer && rounding != nullptr &&
          values_of(*rounding) == chain.results)
        output.quantization.erase(operand);
    }
  }

  /// Whether integer execution takes the node's operands: tables and what moves their values.
  static bool has_codes(const Node& node) {
    return trait<TableLayer>(node) != nullptr || node.quantization.empty();
  }

  Graph& graph_;
  const LogicnetsFusionOptions& options_;
  PassContext& context_;
  ValueLists values_;
  std::vector<Fused> sizes_;
  std::vector<std::string> obstacles_;
};

void run_fusion(Graph& graph, const LogicnetsFusionOptions& options, PassContext& context) {
  options.check_graph(graph, {}, context.where);
  if (graph.requantization() && std::ranges::any_of(graph.nodes(), is_weighted_sum))
    fail("{}: graph \"{}\" computes on integers already: begin with the trained network", context.where,
         graph.name());
  Graph tables = graph;  // so that an error leaves `graph` as it was
  Fusion fusion(tables, options, context);
  fusion.run();
  std::string compared;
  if (options.check_samples > 0) {
    const auto [outputs, differing] = compare_output_bits(graph, tables, options.check_samples, context);
    compared = fmt::format("{} of {} outputs differ from the network's\n", differing, outputs);
    if (differing > 0) fail("{}: {}", context.where, compared);
  }
  context.report(fusion.report() + compared);
  graph = std::move(tables);
}

}  // namespace

PassInfo logicnets_fusion_pass() {
  return make_pass(
      "logicnets_fusion", PassKind::kTransform,
      "turns layers of few inputs and few values, with their batch norms and activations, into truth tables",
      run_fusion, PassStage::kAfterRounding);
}

}  // namespace detent
