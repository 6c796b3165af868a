#include <optional>

#include "detent/graph_files/graph_layout.h"

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

List* list_in(Table& table, const char* key) {
  Value* value = table.find(key);
  return value == nullptr ? nullptr : value->get_if<List>();
}

bool has_text(const Table& table, const char* key, const std::string& text) {
  const Value* value = table.find(key);
  return value != nullptr && *value == Value(text);
}

/// The entry of this name among the parameters of the node, which it loses.
std::optional<Table> take_parameter(Table& node, const std::string& name) {
  List* parameters = list_in(node, "parameters");
  if (parameters == nullptr) return std::nullopt;
  for (auto entry = parameters->begin(); entry != parameters->end(); ++entry) {
    Table* table = entry->get_if<Table>();
    if (table == nullptr || !has_text(*table, "name", name)) continue;
    Table taken = std::move(*table);
    parameters->erase(entry);
    return taken;
  }
  return std::nullopt;
}

/// The place of the quantizer at `place` with `scale` for its parameter. Operands that shared a quantizer may
/// have had scales of their own: then there is a new one.
int64_t give_scale(List& quantizers, int64_t place, Table scale) {
  scale["name"] = "scale";
  const List wanted{std::move(scale)};
  Table quantizer = *quantizers[static_cast<size_t>(place)].get_if<Table>();
  const Value* present = quantizer.find("parameters");
  if (present != nullptr && *present == Value(wanted)) return place;
  const bool is_taken = present != nullptr;
  quantizer["parameters"] = wanted;
  if (!is_taken) {
    quantizers[static_cast<size_t>(place)] = std::move(quantizer);
    return place;
  }
  quantizers.push_back(std::move(quantizer));
  return std::ssize(quantizers) - 1;
}

/// Whether a quantizer with a learned scale is there.
bool learns_scale(List& quantizers, const int64_t* place) {
  if (place == nullptr || *place < 0 || *place >= std::ssize(quantizers)) return false;
  Table* quantizer = quantizers[static_cast<size_t>(*place)].get_if<Table>();
  const Table* keys = quantizer == nullptr ? nullptr : table_in(*quantizer, "keys");
  return keys != nullptr && has_text(*keys, "scale_rule", "learned");
}

void move_scales(Table& node, List& quantizers) {
  Table* operands = table_in(node, "quantization");
  if (operands == nullptr) return;
  for (auto& [operand, place] : *operands) {
    const auto* index = place.get_if<int64_t>();
    if (!learns_scale(quantizers, index)) continue;
    if (std::optional<Table> scale = take_parameter(node, operand + "_scale"))
      place = give_scale(quantizers, *index, std::move(*scale));
  }
}

}  // namespace

void upgrade_to_fourth(Value& graph) {
  Table* top = graph.get_if<Table>();
  List* nodes = top == nullptr ? nullptr : list_in(*top, "nodes");
  List* quantizers = top == nullptr ? nullptr : list_in(*top, "quantizers");
  if (nodes == nullptr || quantizers == nullptr) return;
  for (Value& value : *nodes) {
    if (Table* node = value.get_if<Table>()) move_scales(*node, *quantizers);
  }
}

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
