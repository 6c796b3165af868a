#include "detent/passes/transform/quantize_config.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/passes/operand_keys.h"

namespace detent {
namespace {

/// The node's operands that a prefix stands for.
std::vector<std::string> operands_of(const Node& node, const std::string& prefix) {
  std::vector<std::string> result;
  for (const std::string& operand : quantizable_operands(node)) {
    const bool second_matrix =
        operand == "data_in_1" && find_operator(node.op).reduction_dim(operand).has_value();
    const bool matches = prefix == "data_out"  ? operand.starts_with("data_out_")
                         : prefix == "data_in" ? operand.starts_with("data_in_") && !second_matrix
                         : prefix == "weight"  ? operand == "weight" || second_matrix
                                               : operand == prefix;
    if (matches) result.push_back(operand);
  }
  return result;
}

/// A single block size runs along the dimension that the operator sums over; groups are parts of the weights
/// that one output has.
void set_axes(const Node& node, const std::string& operand, QuantSpec& spec) {
  if (spec.granularity == Granularity::kGroup && operand == "weight" && spec.axis == 0)
    spec.axis = find_operator(node.op).weight_channel_dim.value_or(0);
  const std::optional<BlockSize> blocks = block_size(spec.format);
  if (!blocks || !blocks->is_single() || spec.block_axis) return;
  for (const auto& [name, dimension] : find_operator(node.op).reduction_dims) {
    if (name == operand) spec.block_axis = dimension;
  }
}

void check_operand_blocks(const BlockSize& blocks, const Shape& shape, const std::string& where) {
  if (blocks.is_single() || blocks.sizes.size() < shape.size() || shape.empty()) return;
  const int64_t of_batch = blocks.sizes[blocks.sizes.size() - shape.size()];
  if (of_batch == 1) return;
  fail("{}: got the size {} for the batch dimension, expected 1: samples would influence each other", where,
       of_batch);
}

}  // namespace

void check_activation_blocks(const Graph& graph, const std::string& where) {
  const ValueTypes values = infer_shapes(graph);
  for (const Node& node : graph.nodes()) {
    for (const auto& [operand, quantizer] : node.quantization) {
      const std::optional<BlockSize> blocks = block_size(quantizer->spec.format);
      if (!blocks || node.find_parameter(operand) != nullptr) continue;
      check_operand_blocks(*blocks, operand_type(node, operand, values).shape,
                           fmt::format("{}: node \"{}\": key \"{}_block_size\"", where, node.name, operand));
    }
  }
}

namespace {

constexpr const char* kLogicnets = "logicnets";

std::vector<std::string> names_of_nodes(const Value& value, const std::string& key,
                                        const std::string& where) {
  const List* list = value.get_if<List>();
  if (list == nullptr)
    fail("{}: key \"{}\": got {}, expected a list of names of nodes", where, key, value_text(value));
  std::vector<std::string> names;
  for (const Value& name : *list) {
    const auto* text = name.get_if<std::string>();
    if (text == nullptr) fail("{}: key \"{}\": got {}, expected text", where, key, value_text(name));
    if (*text != "output") names.push_back(*text);  // MASE's mark of a layer after which there is none
  }
  return names;
}

}  // namespace

/// Puts what the keys of LogicNets mean into those of formats.
void QuantizeConfig::read_logicnets_keys(Table& config) {
  config["name"] = "fixed";
  bool rounds_down = false;
  Table plain;
  for (const auto& [key, value] : config) {
    if (key == "additional_layers_inputs") {
      before_ = names_of_nodes(value, key, where_);
    } else if (key == "additional_layers_outputs") {
      after_ = names_of_nodes(value, key, where_);
    } else if (key == "floor") {
      const bool* floor = value.get_if<bool>();
      if (floor == nullptr) fail("{}: key \"floor\": got {}, expected a boolean", where_, value_text(value));
      rounds_down = *floor;
    } else {
      plain[key] = value;
    }
  }
  config = std::move(plain);
  const auto has = [&](const char* prefix) { return !keys_with_prefix(config, prefix).empty(); };
  if (!has("data_in") && !has("data_in_0") && !has("data_out"))
    fail("{}: name = \"logicnets\" says how values are rounded: keys data_in_* or data_out_* are missing",
         where_);
  for (const char* prefix : {"data_in", "data_in_0", "data_out"}) {
    const std::string rounding = fmt::format("{}_rounding", prefix);
    if (rounds_down && has(prefix) && !config.contains(rounding)) config[rounding] = "floor";
  }
}

QuantizeConfig::QuantizeConfig(const Table& given, std::string where) : where_(std::move(where)) {
  Table config = given;
  if (const Value* scheme = config.find("name"); scheme != nullptr && *scheme == Value(kLogicnets))
    read_logicnets_keys(config);
  const Value* name = config.find("name");
  const auto* format = name == nullptr ? nullptr : name->get_if<std::string>();
  if (name == nullptr) {
    fail("{}: key \"name\" is missing: the name of a format ({}), {}, or NA", where_,
         fmt::join(format_names(), ", "), kLogicnets);
  }
  if (format == nullptr && !name->is_na()) {
    fail("{}: key \"name\": got {}, expected the name of a format or NA", where_, value_text(*name));
  }
  active_ = format != nullptr;

  for (const auto& [key, value] : config) {
    if (key == "bypass") {
      const bool* bypass = value.get_if<bool>();
      if (bypass == nullptr)
        fail("{}: key \"bypass\": got {}, expected a boolean", where_, value_text(value));
      if (*bypass) active_ = false;
      continue;
    }
    if (key != "name" && prefix_of_key(key).empty()) {
      fail("{}: unknown key \"{}\": expected \"name\", \"bypass\" or a key that begins with {}_", where_, key,
           fmt::join(operand_prefixes(), "_, "));
    }
    config_[key] = value;
  }
  if (!active_) return;
  make_format(*format, where_);
  for (const std::string& prefix : operand_prefixes()) operand_spec(config_, prefix, where_);
}

OperandFormats QuantizeConfig::formats_for(const Node& node) const {
  OperandFormats result;
  if (!active_) return result;
  // General prefixes first, so that data_in_1 overrides data_in.
  for (const char* const prefix : {"data_in", "weight", "bias", "data_out", "data_in_0", "data_in_1"}) {
    if (!quantizes_operand(config_, prefix)) continue;
    const std::optional<QuantSpec> spec = operand_spec(config_, prefix, where_);
    for (const std::string& operand : operands_of(node, prefix)) {
      std::optional<QuantSpec>& format = result[operand];
      format = spec;
      if (format) set_axes(node, operand, *format);
    }
  }
  return result;
}

std::pair<const Node*, std::string> QuantizeConfig::place(const Graph& graph, const Node& node,
                                                          const std::string& operand) const {
  const auto expect_reads = [&](const std::string& reader, const std::string& read) {
    const Node& found = graph.node(reader);
    if (found.inputs.size() != 1 || found.inputs[0].node != read)
      fail("{}: node \"{}\": expected a node that reads \"{}\" alone", where_, reader, read);
    return &found;
  };
  if (operand == "data_in_0" && !before_.empty()) {
    for (size_t i = 1; i < before_.size(); ++i) expect_reads(before_[i], before_[i - 1]);
    expect_reads(node.name, before_.back());
    return {&graph.node(before_.front()), operand};
  }
  const Node* last = &node;
  for (size_t i = 0; operand == "data_out_0" && i < after_.size(); ++i)
    last = expect_reads(after_[i], last->name);
  return {last, operand};
}

void QuantizeConfig::check_all_used(const std::vector<const Node*>& nodes) const {
  if (!active_) return;
  for (const std::string& prefix : operand_prefixes()) {
    const auto has_operand = [&](const Node* node) { return !operands_of(*node, prefix).empty(); };
    if (keys_with_prefix(config_, prefix).empty() || std::ranges::any_of(nodes, has_operand)) continue;
    fail("{}: keys {}_*: no selected node has such an operand", where_, prefix);
  }
}

}  // namespace detent
