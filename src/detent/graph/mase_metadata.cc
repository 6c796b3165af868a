#include "detent/graph/mase_metadata.h"

#include "detent/core/error.h"
#include "detent/core/fields.h"

namespace detent {
namespace {

/// A format's name and the values of its fields, in their order; ("float", [32]) without one.
void describe_type(const QuantSpec* spec, OperandInfo& info) {
  if (spec == nullptr) return;
  info.type = std::string(format_name(spec->format));
  info.precision.clear();
  std::visit(
      [&](const auto& format) {
        for (const auto& [key, value] : write_fields(format)) info.precision.push_back(value);
      },
      spec->format);
}

OperandInfo describe_operand(const Operand& operand) {
  OperandInfo info;
  if (operand.dtype != DType::kFloat32) {
    info.type = std::string(dtype_name(operand.dtype));
    info.precision = {Value(static_cast<int64_t>(8 * dtype_size(operand.dtype)))};
  }
  info.size = operand.shape;
  info.value = operand.value;
  return info;
}

OperandInfo describe_constant(const Value& value) {
  OperandInfo info;
  info.type = "fixed";
  info.precision = {Value(1), Value(0)};
  const List* list = value.get_if<List>();
  info.size = {list == nullptr ? 1 : std::ssize(*list)};
  info.from = "NA";
  info.value = value;
  return info;
}

/// Inputs in MASE's order: the first, then constants, then the other nodes' results.
std::vector<size_t> listed_input_order(const Node& node) {
  std::vector<size_t> order;
  for (const bool constants : {true, false}) {
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant() == constants) order.push_back(i);
    }
  }
  if (!node.inputs.empty()) order.insert(order.begin(), 0);
  return order;
}

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

/// An entry for every operand that can have statistics: inputs from other nodes, parameters, results. The
/// numbers that `size` gives have none.
Table software_table(const Node& node, const ValueTypes& values) {
  Table software;
  const auto add = [&](const char* side, const std::string& operand) {
    const Table* collected = node.statistics.find(operand);
    software.table(side).table(operand)["stat"] = collected == nullptr ? Table() : *collected;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].is_constant()) add("args", fmt::format("data_in_{}", i));
  }
  for (const auto& [name, parameter] : node.all_parameters()) add("args", name);
  if (role_of(node) == OperatorRole::kOutput) return software;
  for (size_t i = 0; i < result_count(node); ++i) {
    if (values.at(value_name(node.name, i)).is_tensor()) add("results", fmt::format("data_out_{}", i));
  }
  return software;
}

/// Reads one node's table; `where` names file and node.
class NodeReader {
 public:
  explicit NodeReader(std::string where) : where_(std::move(where)) {}

  /// The statistics; `common` is compared with what the graph says.
  NodeStatistics read(const Table& table, const Node& node, const CommonMetadata& common,
                      const std::function<void(const std::string&)>& differs) const {
    NodeStatistics statistics;
    for (const auto& [part, value] : table) {
      const Table& entries = as_table(value, part);
      if (part == "common") {
        compare(read_common(entries, node), common, differs);
      } else if (part == "hardware") {
        continue;
      } else if (part == "software") {
        statistics = read_software(entries);
      } else {
        const std::vector<std::string> known = {"common", "hardware", "software"};
        fail("{}: {}", where_, unknown_name_message("part", part, known));
      }
    }
    return statistics;
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
        const std::string own = key == "mase_op" ? node.op : std::string(enum_name(node.mase_type));
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

  NodeStatistics read_software(const Table& table) const {
    NodeStatistics software;
    for (const auto& [side, operands] : table) {
      if (side != "args" && side != "results") {
        const std::vector<std::string> known = {"args", "results"};
        fail("{}: software: {}", where_, unknown_name_message("key", side, known));
      }
      for (const auto& [operand, entry] : as_table(operands, side)) {
        const Value* statistics = as_table(entry, operand).find("stat");
        if (statistics == nullptr) fail("{}: software: \"{}\" has no stat table", where_, operand);
        const Table& collected = as_table(*statistics, "stat");
        if (!collected.empty()) (side == "args" ? software.args : software.results)[operand] = collected;
      }
    }
    return software;
  }

  void compare(const CommonMetadata& found, const CommonMetadata& own,
               const std::function<void(const std::string&)>& differs) const {
    for (const auto& [theirs, ours] :
         {std::pair(&found.args, &own.args), std::pair(&found.results, &own.results)}) {
      for (const auto& [operand, info] : *theirs) {
        const OperandInfo* expected = ours->find(operand);
        if (expected == nullptr) {
          const std::vector<std::string> known = operand_names(*ours);
          fail("{}: {}", where_, unknown_name_message("operand", operand, known));
        }
        if (*expected == info) continue;
        differs(fmt::format("{}: \"{}\" is {}, the graph has {}", where_, operand,
                            value_text(operand_table(info)), value_text(operand_table(*expected))));
      }
    }
  }

  static std::vector<std::string> operand_names(const OperandMap<OperandInfo>& operands) {
    std::vector<std::string> names;
    for (const auto& [operand, info] : operands) names.push_back(operand);
    return names;
  }

  std::string where_;
};

}  // namespace

CommonMetadata common_metadata(const Node& node, const ValueTypes& values) {
  CommonMetadata common;
  for (const size_t i : listed_input_order(node)) {
    const NodeInput& input = node.inputs[i];
    if (input.is_absent()) continue;
    const std::string operand = fmt::format("data_in_{}", i);
    OperandInfo info = input.is_constant() ? describe_constant(input.constant)
                                           : describe_operand(values.at(value_name(input)));
    if (!input.is_constant()) info.from = value_name(input);
    describe_type(node.find_quantization(operand), info);
    common.args[operand] = std::move(info);
  }
  for (const auto& [name, parameter] : node.all_parameters()) {
    if (!parameter->trainable) continue;
    OperandInfo info;
    info.size = parameter->tensor.shape();
    describe_type(node.find_quantization(name), info);
    common.args[name] = std::move(info);
  }
  if (role_of(node) == OperatorRole::kOutput) return common;
  for (size_t i = 0; i < result_count(node); ++i) {
    OperandInfo info = describe_operand(values.at(value_name(node.name, i)));
    const std::string operand = fmt::format("data_out_{}", i);
    describe_type(node.find_quantization(operand), info);
    common.results[operand] = std::move(info);
  }
  return common;
}

Table metadata_table(const Node& node, const ValueTypes& values) {
  Table table;
  const CommonMetadata common = common_metadata(node, values);
  Table& part = table.table("common");
  part["mase_type"] = enum_name(node.mase_type);
  part["mase_op"] = node.op;
  for (const auto& [operand, info] : common.args) part.table("args")[operand] = operand_table(info);
  for (const auto& [operand, info] : common.results) part.table("results")[operand] = operand_table(info);
  part.table("args");
  part.table("results");
  table.table("hardware");
  table["software"] = software_table(node, values);
  return table;
}

Table metadata_table(const Graph& graph) {
  const ValueTypes values = infer_shapes(graph);
  Table table;
  for (const Node& node : graph.nodes()) table[node.name] = metadata_table(node, values);
  return table;
}

void load_metadata_table(Graph& graph, const Table& table, const std::string& source,
                         const std::function<void(const std::string&)>& differs) {
  for (const auto& [name, entry] : table) {
    if (graph.find(name) == nullptr)
      fail("{}: {}", source, unknown_name_message("node", name, graph.node_names()));
  }
  const ValueTypes values = infer_shapes(graph);
  std::vector<NodeStatistics> statistics;
  for (const Node& node : graph.nodes()) {
    const Value* entry = table.find(node.name);
    const Table* nested = entry == nullptr ? nullptr : entry->get_if<Table>();
    if (nested == nullptr) fail("{}: node \"{}\" is missing", source, node.name);
    const NodeReader reader(fmt::format("{}: node \"{}\"", source, node.name));
    statistics.push_back(reader.read(*nested, node, common_metadata(node, values), differs));
  }
  for (size_t i = 0; i < statistics.size(); ++i) graph.nodes()[i].statistics = std::move(statistics[i]);
}

}  // namespace detent
