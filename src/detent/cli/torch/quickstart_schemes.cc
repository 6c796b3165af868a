#include "detent/cli/torch/quickstart_schemes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "detent/core/error.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

constexpr std::array<const char*, 2> kLayers = {"conv2d", "linear"};

List layer_list() { return List(kLayers.begin(), kLayers.end()); }

double number(const Table& table, const char* key) {
  double scratch = 0;
  const Value* value = table.find(key);
  const double* result = value == nullptr ? nullptr : value->number(scratch);
  DETENT_CHECK(result != nullptr, "no number {} in {}", key, value_text(table));
  return *result;
}

/// The most fraction bits with which the operand's largest magnitude m still fits: m <= 2^(width - 1 - f).
int fraction_bits(const Node& node, const std::string& operand, int width) {
  const Table* statistics = node.metadata.software ? node.metadata.software->args.find(operand) : nullptr;
  const Value* range = statistics == nullptr ? nullptr : statistics->find("range_min_max");
  DETENT_CHECK(range != nullptr, "{} of {} is not profiled", operand, node.name);
  const Table& values = *range->get_if<Table>();
  const double magnitude = std::max(std::abs(number(values, "min")), std::abs(number(values, "max")));
  if (magnitude == 0) return width - 1;
  return width - 1 - static_cast<int>(std::ceil(std::log2(magnitude)));
}

/// The keys of one operand, with its prefix.
void add_operand(const Node& node, const std::string& operand, const std::string& prefix, const std::string& text,
                 Table& config) {
  QuantSpec spec = parse_quant_spec_text(text);
  if (auto* fixed = std::get_if<Fixed>(&spec.format)) {
    fixed->frac_width = fraction_bits(node, operand, fixed->width);
  }
  config[prefix + "_name"] = std::string(format_name(spec.format));
  for (const auto& [key, value] : quant_spec_keys(spec)) config[fmt::format("{}_{}", prefix, key)] = value;
}

}  // namespace

std::span<const QuickstartScheme> quickstart_schemes() {
  static const std::vector<QuickstartScheme> schemes = {
      {"fixed8", "fixed, 8-bit weights and activations", "fixed:width=8", "fixed:width=8"},
      {"fixed4", "fixed, 4-bit weights, 8-bit activations", "fixed:width=4", "fixed:width=8"},
      {"ternary", "ternary weights, 8-bit activations", "ternary:scaling_factor=true,granularity=channel",
       "fixed:width=8"},
      {"binary", "binary weights, 8-bit activations", "binary:scaling=per_channel", "fixed:width=8"},
  };
  return schemes;
}

Table quickstart_profile_options() {
  Table options = {{"by", "type"}, {"target_weight_nodes", layer_list()}, {"target_activation_nodes", layer_list()}};
  options["num_samples"] = 256;
  options.table("weight_statistics").table("range_min_max");
  options.table("activation_statistics").table("range_min_max");
  return options;
}

Table scheme_config(const Graph& profiled, const QuickstartScheme& scheme) {
  Table options = {{"by", "name"}, {"report", false}};
  for (const Node& node : profiled.nodes()) {
    if (std::ranges::find(kLayers, node.op) == kLayers.end()) continue;
    Table& config = options.table(node.name).table("config");
    config["name"] = "fixed";
    add_operand(node, "data_in_0", "data_in", scheme.data_in, config);
    add_operand(node, "weight", "weight", scheme.weight, config);
    if (node.find_parameter("bias") != nullptr) add_operand(node, "bias", "bias", "fixed:width=8", config);
  }
  return options;
}

}  // namespace detent
