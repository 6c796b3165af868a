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

QuantizeConfig::QuantizeConfig(const Table& config, std::string where) : where_(std::move(where)) {
  const Value* name = config.find("name");
  const auto* format = name == nullptr ? nullptr : name->get_if<std::string>();
  if (name == nullptr) {
    fail("{}: key \"name\" is missing: the name of a format ({}) or NA", where_,
         fmt::join(format_names(), ", "));
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

void QuantizeConfig::check_all_used(const std::vector<const Node*>& nodes) const {
  if (!active_) return;
  for (const std::string& prefix : operand_prefixes()) {
    const auto has_operand = [&](const Node* node) { return !operands_of(*node, prefix).empty(); };
    if (keys_with_prefix(config_, prefix).empty() || std::ranges::any_of(nodes, has_operand)) continue;
    fail("{}: keys {}_*: no selected node has such an operand", where_, prefix);
  }
}

}  // namespace detent
