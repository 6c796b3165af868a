#include "detent/io/graph_layout.h"

namespace detent::graph_layout {
namespace {

Table* table_in(Table& table, const char* key) {
  Value* value = table.find(key);
  return value == nullptr ? nullptr : value->get_if<Table>();
}

/// [1, 3, 32, 32] -> {dtype = "float32", shape = ["N", 3, 32, 32]}
void upgrade_input(Table& node) {
  const Value* found = node.find("input_shape");
  const List* sizes = found == nullptr ? nullptr : found->get_if<List>();
  if (sizes == nullptr) return;
  List shape = *sizes;
  if (!shape.empty()) shape[0] = kBatchName;
  node.erase("input_shape");
  node["input_type"] = Table{{"dtype", "float32"}, {"shape", std::move(shape)}};
}

void upgrade_quantization(Table& node, List& quantizers) {
  Table* operands = table_in(node, "quantization");
  if (operands == nullptr) return;
  for (auto& [operand, spec] : *operands) {
    quantizers.push_back(std::move(spec));
    spec = std::ssize(quantizers) - 1;
  }
}

/// Statistics that were measured; the rest follows from the graph.
void upgrade_metadata(Table& node) {
  Table* metadata = table_in(node, "metadata");
  if (metadata == nullptr) return;
  if (Table* software = table_in(*metadata, "software")) {
    for (const char* side : {"args", "results"}) {
      Table* operands = table_in(*software, side);
      if (operands == nullptr) continue;
      Table measured;
      for (auto& [operand, statistics] : *operands) {
        const Table* table = statistics.get_if<Table>();
        if (table == nullptr || !table->empty()) measured[operand] = std::move(statistics);
      }
      *operands = std::move(measured);
    }
    node["statistics"] = std::move(*software);
  }
  node.erase("metadata");
}

}  // namespace

void upgrade_to_third(Value& graph) {
  Table* top = graph.get_if<Table>();
  Value* nodes = top == nullptr ? nullptr : top->find("nodes");
  List* list = nodes == nullptr ? nullptr : nodes->get_if<List>();
  if (list == nullptr) return;
  List quantizers;
  for (Value& value : *list) {
    Table* node = value.get_if<Table>();
    if (node == nullptr) continue;
    upgrade_input(*node);
    upgrade_quantization(*node, quantizers);
    upgrade_metadata(*node);
  }
  (*top)["quantizers"] = std::move(quantizers);
}

}  // namespace detent::graph_layout
