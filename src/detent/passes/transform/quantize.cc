#include <algorithm>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/graph/operators.h"
#include "detent/passes/analysis/quantization_summary.h"
#include "detent/passes/passes.h"
#include "detent/passes/qat/qat_presets.h"
#include "detent/passes/transform/quantize_config.h"
#include "detent/passes/truth_tables/lutnet_config.h"

// Attaches a QuantSpec to the operands of the nodes that the configuration selects:
//
//     [passes.quantize]            by = "type" | "name" | "regex_name"; report = true prints the tables
//     [passes.quantize.default.config]      for the nodes that no entry below selects
//     [passes.quantize.<key>.config]        key: an operator, a node's name, or a regular expression
//
// With name = "lutnet" (lutnet_config.h) layers of signs become layers of tables.
//
// A regular expression must match the whole name; the first entry in file order that does decides. Operands
// that the entry has no keys for stay as they are. One that has another format already is an error, unless
// requantize = true.

namespace detent {
namespace {

enum class SelectBy { kType, kName, kRegexName };
constexpr std::array<const char*, 3> enum_names(SelectBy) { return {"type", "name", "regex_name"}; }

struct QuantizeOptions {
  SelectBy by = SelectBy::kType;
  bool requantize = false;
  bool report = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("by", self.by, "entries are operators, names or regular expressions");
    visit("requantize", self.requantize, "replace formats of quantized operands instead of failing");
    visit("report", self.report, "print the table of nodes and the histogram");
  }
};

struct Entry {
  std::string key;
  QuantizeConfig config;
  std::optional<NamePattern> pattern = std::nullopt;  // for regex_name
};

const Table& config_table(const Table& entry, const std::string& where) {
  for (const auto& [key, value] : entry) {
    if (key != "config") fail("{}: unknown key \"{}\": expected a table \"config\"", where, key);
  }
  const Value* config = entry.find("config");
  const Table* table = config == nullptr ? nullptr : config->get_if<Table>();
  if (table == nullptr) fail("{}: expected a table \"config\"", where);
  return *table;
}

void check_operator(const std::string& name, const std::string& where) {
  const std::vector<std::string> known = operator_names();
  if (std::ranges::find(known, name) == known.end()) {
    fail("{}: {}", where, unknown_name_message("operator", name, known));
  }
}

/// The whole table of the pass.
struct Selection {
  QuantizeOptions options;
  std::vector<Entry> entries;
  std::optional<QuantizeConfig> fallback;
  std::vector<LutnetEntry> lutnets;

  static std::vector<FieldDescription> describe() { return describe_fields<QuantizeOptions>(); }
  static Selection parse(const Table& table, const std::string& where);

  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const;

  void add_lutnet(const std::string& key, LutnetConfig config, const std::string& where);
  bool selects(const Entry& entry, const Node& node) const {
    switch (options.by) {
      case SelectBy::kType:
        return entry.key == node.op;
      case SelectBy::kName:
        return entry.key == node.name;
      case SelectBy::kRegexName:
        return entry.pattern->matches(node.name);
    }
    return false;
  }
  /// nullptr when the node is not to be touched.
  const QuantizeConfig* config_for(const Node& node) const {
    const auto is_named = [&](const LutnetEntry& e) { return !e.is_default && e.selects(node); };
    if (std::ranges::any_of(lutnets, is_named)) return nullptr;
    const auto entry = std::ranges::find_if(entries, [&](const Entry& e) { return selects(e, node); });
    if (entry != entries.end()) return &entry->config;
    return fallback && find_operator(node.op).quantizable ? &*fallback : nullptr;
  }
};

void Selection::add_lutnet(const std::string& key, LutnetConfig config, const std::string& where) {
  LutnetEntry entry{.config = std::move(config), .key = key, .is_default = key == "default"};
  if (options.by == SelectBy::kType && !entry.is_default) check_operator(key, where);
  if (entry.is_default) {
    entry.selects = [](const Node&) { return true; };
  } else if (options.by == SelectBy::kRegexName) {
    entry.selects = [pattern = NamePattern(key, where)](const Node& node) {
      return pattern.matches(node.name);
    };
  } else {
    entry.selects = [key, by = options.by](const Node& node) {
      return key == (by == SelectBy::kType ? node.op : node.name);
    };
  }
  const auto is_default = [](const LutnetEntry& other) { return other.is_default; };
  lutnets.insert(std::ranges::find_if(lutnets, is_default), std::move(entry));
}

Selection Selection::parse(const Table& table, const std::string& where) {
  Selection selection;
  Table plain;
  for (const auto& [key, value] : table) {
    if (!value.is<Table>()) plain[key] = value;
  }
  read_fields(selection.options, plain, where);
  if (!plain.contains("by")) fail("{}: key \"by\" is missing: type, name or regex_name", where);
  for (const auto& [key, value] : table) {
    const Table* entry = value.get_if<Table>();
    if (entry == nullptr) continue;
    const std::string entry_where = fmt::format("{} {}", where, key);
    const Table& plain_config = config_table(*entry, entry_where);
    if (auto lutnet = LutnetConfig::read(plain_config, entry_where + ".config")) {
      selection.add_lutnet(key, std::move(*lutnet), entry_where);
      continue;
    }
    QuantizeConfig config(plain_config, entry_where + ".config");
    if (key == "default") {
      selection.fallback = std::move(config);
      continue;
    }
    if (selection.options.by == SelectBy::kType) check_operator(key, where);
    Entry& added = selection.entries.emplace_back(Entry{key, std::move(config)});
    if (selection.options.by == SelectBy::kRegexName) added.pattern.emplace(key, entry_where);
  }
  return selection;
}

/// Nodes that the entry is the first to select.
std::vector<const Node*> nodes_of(const Entry& entry, const Selection& selection, const Graph& graph) {
  std::vector<const Node*> nodes;
  for (const Node& node : graph.nodes()) {
    if (selection.config_for(node) == &entry.config) nodes.push_back(&node);
  }
  return nodes;
}

/// A key that selects nothing is a mistake; an operator that this network happens not to have may be none.
void check_all_match(const Selection& selection, const Graph& graph, const std::string& where) {
  for (const LutnetEntry& entry : selection.lutnets) {
    if (selection.options.by != SelectBy::kType && std::ranges::none_of(graph.nodes(), entry.selects))
      fail("{}: the entry \"{}\" selects no node (nodes: {})", where, entry.key,
           listed_names(graph.node_names(), entry.key));
  }
  if (selection.options.by == SelectBy::kType) return;
  for (const Entry& entry : selection.entries) {
    if (!nodes_of(entry, selection, graph).empty()) continue;
    if (selection.options.by == SelectBy::kName) {
      fail("{}: {}", where, unknown_name_message("node", entry.key, graph.node_names()));
    }
    fail("{}: the pattern \"{}\" matches no node (nodes: {})", where, entry.key,
         listed_names(graph.node_names(), entry.key));
  }
}

/// "conv1 (weight, bias), fc (weight)"
std::string conflicts_text(const Graph& graph, const std::map<size_t, std::vector<std::string>>& conflicts) {
  std::vector<std::string> nodes;
  for (const auto& [at, operands] : conflicts)
    nodes.push_back(fmt::format("\"{}\" ({})", graph.nodes()[at].name, fmt::join(operands, ", ")));
  return fmt::format("{}", fmt::join(nodes, ", "));
}

/// A quantizer with another spec. What the present one owns goes with it as a copy, for others may share it.
Quantizer with_spec(const Quantizer* present, const QuantSpec& spec) {
  Quantizer result = spec;
  if (present == nullptr) return result;
  for (const auto& [name, parameter] : present->parameters)
    result.parameters.emplace_back(name, Parameter{parameter->tensor.clone(), parameter->trainable});
  return result;
}

/// The quantization of every node as the selection leaves it.
std::vector<NodeQuantization> selected_formats(const Selection& selection, const Graph& graph,
                                               const std::string& where) {
  const ValueTypes values = infer_shapes(graph);
  const auto holds_floats = [&](const Node& node, const std::string& operand) {
    const Operand type = operand_type(node, operand, values);
    return type.is_tensor() && type.dtype == DType::kFloat32;
  };
  std::vector<NodeQuantization> result;
  for (const Node& node : graph.nodes()) result.push_back(node.quantization);
  std::map<size_t, std::vector<std::string>> conflicts;  // operands, by place of the node
  for (const Node& selected : graph.nodes()) {
    const QuantizeConfig* config = selection.config_for(selected);
    if (config == nullptr) continue;
    for (const auto& [name, spec] : config->formats_for(selected)) {
      if (!holds_floats(selected, name)) continue;
      const auto [node, operand] = config->place(graph, selected, name);
      if (spec && !find_operator(node->op).quantizable) {
        fail("{}: node \"{}\" ({}) cannot be quantized", where, node->name, node->op);
      }
      const Quantizer* present = node->find_quantizer(operand);
      if (spec && present != nullptr && present->spec == *spec) continue;  // shared or not
      const size_t at = graph.position(node->name);
      if (present != nullptr) conflicts[at].push_back(operand);
      NodeQuantization& formats = result[at];
      formats.erase(operand);
      if (spec) formats[operand] = with_spec(present, *spec);
    }
  }
  if (!conflicts.empty() && !selection.options.requantize) {
    fail(
        "{}: quantized already with other formats: {}: begin with the float network, leave these nodes out, "
        "or let their formats be replaced (requantize = true)",
        where, conflicts_text(graph, conflicts));
  }
  return result;
}

/// Where the network will be another by then, all that can be told is that a name matches nothing: passes
/// only remove nodes.
void Selection::check_graph(const Graph& graph, const EarlierPasses& earlier,
                            const std::string& where) const {
  check_all_match(*this, graph, where);
  if (earlier.change_network) return;
  for (const Entry& entry : entries) {
    const std::vector<const Node*> nodes = nodes_of(entry, *this, graph);
    if (!nodes.empty()) entry.config.check_all_used(nodes);
  }
  selected_formats(*this, graph, where);
}

void run_quantize(Graph& graph, const Selection& selection, PassContext& context) {
  selection.check_graph(graph, {}, context.where);
  for (const Entry& entry : selection.entries) {
    if (!nodes_of(entry, selection, graph).empty()) continue;
    context.warn(fmt::format("{}: no node is of type \"{}\"", context.where, entry.key));
  }
  Graph quantized = graph;  // so that an error leaves `graph` as it was
  std::vector<NodeQuantization> formats = selected_formats(selection, quantized, context.where);
  for (size_t i = 0; i < formats.size(); ++i) quantized.nodes()[i].quantization = std::move(formats[i]);
  place_learned_scales(quantized, context.where);
  check_activation_blocks(quantized, context.where);
  const std::string tables = make_lutnet_layers(quantized, selection.lutnets, context.where);
  verify(quantized);
  graph = std::move(quantized);
  if (selection.options.report && !tables.empty()) context.report(tables);
  for (const LutnetEntry& entry : selection.lutnets) {
    if (!entry.config.unused.empty())
      context.warn(
          fmt::format("{} {}: nothing depends on {}: amplitudes are multiples of a power of two, and "
                      "sizes those of the layer",
                      context.where, entry.key, fmt::join(entry.config.unused, ", ")));
  }
  write_quantization_summary(graph, context.output_dir / "quantize", selection.options.report, context);
}

}  // namespace

PassInfo quantize_pass() {
  return make_pass("quantize", PassKind::kTransform,
                   "attaches number formats to operands, by type, name or regex_name", run_quantize,
                   PassStage::kQuantizing);
}

}  // namespace detent
