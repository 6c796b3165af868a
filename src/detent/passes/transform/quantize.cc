#include <algorithm>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/passes/analysis/quantization_summary.h"
#include "detent/core/name_pattern.h"
#include "detent/passes/passes.h"
#include "detent/passes/transform/learned_scales.h"
#include "detent/passes/transform/quantize_config.h"

// Attaches a QuantSpec to the operands of the nodes that the configuration selects:
//
//     [passes.quantize]            by = "type" | "name" | "regex_name"; report = true prints the tables
//     [passes.quantize.default.config]      for the nodes that no entry below selects
//     [passes.quantize.<key>.config]        key: an operator, a node's name, or a regular expression
//
// A regular expression must match the whole name; the first entry in file order that does decides.

namespace detent {
namespace {

enum class SelectBy { kType, kName, kRegexName };
constexpr std::array<const char*, 3> enum_names(SelectBy) { return {"type", "name", "regex_name"}; }

struct QuantizeOptions {
  SelectBy by = SelectBy::kType;
  bool report = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("by", self.by, "what the entries are keyed by");
    visit("report", self.report, "print the table of nodes and the histogram");
  }
};

struct Entry {
  std::string key;
  QuantizeConfig config;
  std::optional<NamePattern> pattern;  // for regex_name
  bool matched = false;
};

struct Selection {
  QuantizeOptions options;
  std::vector<Entry> entries;
  std::optional<QuantizeConfig> fallback;
};

QuantizeConfig read_config(const Table& entry, const std::string& where) {
  for (const auto& [key, value] : entry) {
    if (key != "config") fail("{}: unknown key \"{}\": expected a table \"config\"", where, key);
  }
  const Value* config = entry.find("config");
  const Table* table = config == nullptr ? nullptr : config->get_if<Table>();
  if (table == nullptr) fail("{}: expected a table \"config\"", where);
  return QuantizeConfig(*table, where + ".config");
}

Selection read_selection(const Table& table, const std::string& where) {
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
    QuantizeConfig config = read_config(*entry, entry_where);
    if (key == "default") {
      selection.fallback = std::move(config);
    } else {
      std::optional<NamePattern> pattern;
      if (selection.options.by == SelectBy::kRegexName) pattern.emplace(key, entry_where);
      selection.entries.push_back({key, std::move(config), std::move(pattern)});
    }
  }
  return selection;
}

bool selects(const Entry& entry, SelectBy by, const Node& node) {
  switch (by) {
    case SelectBy::kType:
      return entry.key == node.op;
    case SelectBy::kName:
      return entry.key == node.name;
    case SelectBy::kRegexName:
      return entry.pattern->matches(node.name);
  }
  return false;
}

/// A key that selects nothing is a mistake; an operator that this network happens not to have may be none.
void check_all_matched(const Selection& selection, const Graph& graph, const PassContext& context) {
  for (const Entry& entry : selection.entries) {
    if (entry.matched) {
      entry.config.check_all_used();
    } else if (selection.options.by == SelectBy::kType) {
      find_operator(entry.key);
      context.warn(fmt::format("{}: no node is of type \"{}\"", context.where, entry.key));
    } else if (selection.options.by == SelectBy::kName) {
      fail("{}: {}", context.where, unknown_name_message("node", entry.key, graph.node_names()));
    } else {
      fail("{}: the pattern \"{}\" matches no node (nodes: {})", context.where, entry.key,
           value_text(Value([&] {
             List names;
             for (const std::string& name : graph.node_names()) names.emplace_back(name);
             return names;
           }())));
    }
  }
}

void run_quantize(Graph& graph, const Table& table, PassContext& context) {
  Selection selection = read_selection(table, context.where);
  std::vector<NodeQuantization> quantization;
  for (const Node& node : graph.nodes()) {
    const bool quantizable = find_operator(node.op).quantizable;
    const auto entry = std::ranges::find_if(
        selection.entries, [&](const Entry& e) { return selects(e, selection.options.by, node); });
    if (entry != selection.entries.end()) {
      entry->matched = true;
      const NodeQuantization specs = entry->config.specs_for(node);
      if (!quantizable && !specs.empty()) {
        fail("{}: node \"{}\" ({}) cannot be quantized", context.where, node.name, node.op);
      }
      quantization.push_back(specs);
    } else if (quantizable && selection.fallback) {
      quantization.push_back(selection.fallback->specs_for(node));
    } else {
      quantization.push_back(node.quantization);
    }
  }
  check_all_matched(selection, graph, context);
  Graph quantized = graph;  // so that an error leaves `graph` as it was
  for (size_t i = 0; i < quantization.size(); ++i)
    quantized.nodes()[i].quantization = std::move(quantization[i]);
  place_learned_scales(quantized, context.where);
  graph = std::move(quantized);
  add_common_metadata_pass().run(graph, {}, context);
  check_activation_blocks(graph, context.where);
  write_quantization_summary(graph, context.output_dir / "quantize", selection.options.report, context);
}

}  // namespace

PassInfo quantize_pass() {
  return {"quantize", PassKind::kTransform,
          "attaches number formats to operands, by type, name or regex_name",
          describe_fields<QuantizeOptions>(), run_quantize};
}

}  // namespace detent
