#include "detent/graph/metadata_table.h"

#include "detent/core/error.h"

namespace detent {
namespace {

/// Constants begin with their size, other entries with their type: the order of the files that MASE writes.
Table operand_table(const OperandInfo& info) {
  Table table;
  const bool constant = info.from == "NA";
  if (constant) table["size"] = Value(info.size);
  table["type"] = info.type;
  table["precision"] = info.precision;
  if (!constant) table["size"] = Value(info.size);
  if (!constant && !info.value.is_na()) table["value"] = info.value;
  if (info.from) table["from"] = constant ? Value() : Value(*info.from);
  if (constant) table["value"] = info.value;
  return table;
}

Table software_table(const OperandMap<Table>& operands) {
  Table table;
  for (const auto& [operand, statistics] : operands) table.table(operand)["stat"] = statistics;
  return table;
}

/// Reads one node's table; `where` names file and node.
class NodeReader {
 public:
  explicit NodeReader(std::string where) : where_(std::move(where)) {}

  Metadata read(const Table& table, const Node& node) const {
    Metadata metadata;
    for (const auto& [part, value] : table) {
      const Table& entries = as_table(value, part);
      if (part == "common") {
        metadata.common = read_common(entries, node);
      } else if (part == "hardware") {
        metadata.hardware = HardwareMetadata{};
      } else if (part == "software") {
        metadata.software = read_software(entries);
      } else {
        const std::vector<std::string> known = {"common", "hardware", "software"};
        fail("{}: {}", where_, unknown_name_message("part", part, known));
      }
    }
    return metadata;
  }

 private:
  const Table& as_table(const Value& value, const std::string& key) const {
    const Table* table = value.get_if<Table>();
    if (table == nullptr)
      fail("{}: \"{}\": got {} ({}), expected a table", where_, key, value_text(value), value.kind_name());
    return *table;
  }

  CommonMetadata read_common(const Table& table, const Node& node) const {
    CommonMetadata common;
    for (const auto& [key, value] : table) {
      if (key == "mase_type" || key == "mase_op") {
        const std::string own = key == "mase_op" ? node.op : std::string(mase_type_name(node.mase_type));
        if (value != Value(own))
          fail("{}: {} is {}, the graph's is \"{}\"", where_, key, value_text(value), own);
      } else if (key == "args" || key == "results") {
        auto& operands = key == "args" ? common.args : common.results;
        for (const auto& [operand, info] : as_table(value, key))
          operands[operand] = read_operand(as_table(info, operand), operand);
      } else {
        const std::vector<std::string> known = {"mase_type", "mase_op", "args", "results"};
        fail("{}: {}", where_, unknown_name_message("key", key, known));
      }
    }
    return common;
  }

  OperandInfo read_operand(const Table& table, const std::string& operand) const {
    OperandInfo info;
    for (const auto& [key, value] : table) {
      const std::string* text = value.get_if<std::string>();
      const List* list = value.get_if<List>();
      if (key == "value") {
        info.value = value;
      } else if (key == "from" && (value.is_na() || text != nullptr)) {
        info.from = value.is_na() ? "NA" : *text;
      } else if (key == "type" && text != nullptr) {
        info.type = *text;
      } else if (key == "precision" && list != nullptr) {
        info.precision = *list;
      } else if (key == "size" && list != nullptr) {
        info.size = read_size(*list, operand);
      } else {
        const std::vector<std::string> known = {"type", "precision", "size", "from", "value"};
        fail("{}: \"{}\": {} = {} is not understood (keys: {})", where_, operand, key, value_text(value),
             value_text(List(known.begin(), known.end())));
      }
    }
    return info;
  }

  Shape read_size(const List& list, const std::string& operand) const {
    Shape shape;
    for (const Value& value : list) {
      const auto* size = value.get_if<int64_t>();
      if (size == nullptr || *size < 0)
        fail("{}: \"{}\": size {} is no shape", where_, operand, value_text(list));
      shape.push_back(*size);
    }
    return shape;
  }

  SoftwareMetadata read_software(const Table& table) const {
    SoftwareMetadata software;
    for (const auto& [side, operands] : table) {
      if (side != "args" && side != "results") {
        const std::vector<std::string> known = {"args", "results"};
        fail("{}: software: {}", where_, unknown_name_message("key", side, known));
      }
      for (const auto& [operand, entry] : as_table(operands, side)) {
        const Value* statistics = as_table(entry, operand).find("stat");
        if (statistics == nullptr) fail("{}: software: \"{}\" has no stat table", where_, operand);
        (side == "args" ? software.args : software.results)[operand] = as_table(*statistics, "stat");
      }
    }
    return software;
  }

  std::string where_;
};

}  // namespace

Table metadata_table(const Node& node) {
  Table table;
  if (const auto& common = node.metadata.common) {
    Table& part = table.table("common");
    part["mase_type"] = std::string(mase_type_name(node.mase_type));
    part["mase_op"] = node.op;
    for (const auto& [operand, info] : common->args) part.table("args")[operand] = operand_table(info);
    for (const auto& [operand, info] : common->results) part.table("results")[operand] = operand_table(info);
    part.table("args");
    part.table("results");
  }
  if (node.metadata.hardware) table.table("hardware");
  if (const auto& software = node.metadata.software) {
    Table& part = table.table("software");
    if (!software->args.empty()) part["args"] = software_table(software->args);
    if (!software->results.empty()) part["results"] = software_table(software->results);
  }
  return table;
}

Table metadata_table(const Graph& graph) {
  Table table;
  for (const Node& node : graph.nodes()) table[node.name] = metadata_table(node);
  return table;
}

void load_metadata_table(Graph& graph, const Table& table, const std::string& source) {
  for (const auto& [name, entry] : table) {
    if (graph.find(name) == nullptr)
      fail("{}: {}", source, unknown_name_message("node", name, graph.node_names()));
  }
  std::vector<Metadata> metadata;
  for (const Node& node : graph.nodes()) {
    const Value* entry = table.find(node.name);
    const Table* nested = entry == nullptr ? nullptr : entry->get_if<Table>();
    if (nested == nullptr) fail("{}: node \"{}\" is missing", source, node.name);
    metadata.push_back(NodeReader(fmt::format("{}: node \"{}\"", source, node.name)).read(*nested, node));
  }
  for (size_t i = 0; i < metadata.size(); ++i) graph.nodes()[i].metadata = std::move(metadata[i]);
}

}  // namespace detent
