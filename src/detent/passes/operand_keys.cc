#include "detent/passes/operand_keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "detent/core/error.h"

namespace detent {

const std::vector<std::string>& operand_prefixes() {
  static const std::vector<std::string> prefixes = {"data_in", "data_in_0", "data_in_1",
                                                    "weight",  "bias",      "data_out"};
  return prefixes;
}

std::string prefix_of_key(const std::string& key) {
  std::string best;
  for (const std::string& prefix : operand_prefixes()) {
    if (prefix.size() > best.size() && key.starts_with(prefix + "_")) best = prefix;
  }
  return best;
}

Table keys_with_prefix(const Table& config, const std::string& prefix) {
  Table keys;
  for (const auto& [key, value] : config) {
    if (prefix_of_key(key) == prefix) keys[key.substr(prefix.size() + 1)] = value;
  }
  return keys;
}

bool quantizes_operand(const Table& config, const std::string& prefix) {
  const auto has_keys = [&](const std::string& other) {
    return std::ranges::any_of(config,
                               [&](const TableEntry& entry) { return prefix_of_key(entry.key) == other; });
  };
  if (has_keys(prefix)) return true;
  if (prefix == "bias" && has_keys("weight")) return true;
  const bool by_default = prefix == "data_in" || prefix == "weight" || prefix == "bias";
  return by_default && std::ranges::none_of(operand_prefixes(), has_keys);
}

std::optional<std::string> format_of_operand(const Table& config, const std::string& prefix,
                                             const std::string& where) {
  const Value* own_name = config.find(prefix + "_name");
  const Value* name = own_name != nullptr ? own_name : config.find("name");
  if (name == nullptr) fail("{}: key \"name\" is missing", where);
  if (name->is_na()) return std::nullopt;
  const auto* format = name->get_if<std::string>();
  if (format == nullptr) {
    fail("{}: key \"{}name\": got {}, expected the name of a format", where,
         own_name != nullptr ? prefix + "_" : "", value_text(*name));
  }
  return *format;
}

std::optional<QuantSpec> operand_spec(const Table& config, const std::string& prefix,
                                      const std::string& where) {
  if (!quantizes_operand(config, prefix)) return std::nullopt;
  Table keys = keys_with_prefix(config, prefix);
  std::string source = prefix;
  if (keys.empty() && prefix == "bias") {
    keys = keys_with_prefix(config, "weight");
    keys.erase("block_axis");
    if (!keys.empty()) source = "weight";
  }
  const std::optional<std::string> format = format_of_operand(config, source, where);
  if (!format) return std::nullopt;
  keys.erase("name");
  return parse_quant_spec(*format, keys, fmt::format("{}: {}_*", where, source));
}

void set_operand_spec(Table& config, const std::string& prefix, const std::optional<QuantSpec>& spec) {
  Table result;
  for (const auto& [key, value] : config) {
    if (prefix_of_key(key) != prefix) result[key] = value;
  }
  result[prefix + "_name"] = spec ? Value(std::string(format_name(spec->format))) : Value();
  if (spec) {
    for (const auto& [key, value] : quant_spec_keys(*spec)) result[fmt::format("{}_{}", prefix, key)] = value;
  }
  config = std::move(result);
}

}  // namespace detent
