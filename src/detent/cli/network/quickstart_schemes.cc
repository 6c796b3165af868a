#include "detent/cli/network/quickstart.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "detent/core/error.h"
#include "detent/formats/quant_spec.h"
#include "detent/formats/verbs.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// The operators of the network's layers.
List layer_list(const Graph& graph) {
  std::set<std::string> operators;
  for (const Node& node : graph.nodes()) {
    if (is_weighted_sum(node)) operators.insert(node.op);
  }
  return List(operators.begin(), operators.end());
}

double number(const Table& table, const char* key) {
  double scratch = 0;
  const Value* value = table.find(key);
  const double* result = value == nullptr ? nullptr : value->number(scratch);
  DETENT_CHECK(result != nullptr, "no number {} in {}", key, value_text(table));
  return *result;
}

struct Range {
  double min = 0;
  double max = 0;
  double magnitude() const { return std::max(std::abs(min), std::abs(max)); }
};

Range profiled_range(const Node& node, const std::string& operand) {
  const Table* statistics = node.statistics.find(operand);
  const Value* range = statistics == nullptr ? nullptr : statistics->find("range_min_max");
  DETENT_CHECK(range != nullptr, "{} of {} is not profiled", operand, node.name);
  const Table& values = *range->get_if<Table>();
  return {number(values, "min"), number(values, "max")};
}

/// The most fraction bits with which the largest magnitude m still fits: m <= 2^(width - 1 - f).
int fraction_bits(const Range& range, int width) {
  if (range.magnitude() == 0) return width - 1;
  return width - 1 - static_cast<int>(std::ceil(std::log2(range.magnitude())));
}

/// Scale and zero point for a range, widened to include 0, over all codes of unsigned integers.
GivenScales scale_for(const Range& range, int width) {
  const double low = std::min(0.0, range.min);
  const double steps = std::exp2(width) - 1;
  const double scale = range.magnitude() == 0 ? 1 : (std::max(0.0, range.max) - low) / steps;
  return {{static_cast<float>(scale)}, {static_cast<int>(std::lround(-low / scale))}};
}

/// The keys of one operand, with its prefix. Activations in fixed point and affine formats take their
/// parameters from the profile, as a deployed network would; other formats have none or take them from the
/// tensor itself.
void add_operand(const Node& node, const std::string& operand, const std::string& prefix,
                 const std::string& text, Table& config) {
  QuantSpec spec = parse_quant_spec_text(text);
  if (const auto integers = integer_codes(spec.format); integers && prefix == "data_in") {
    spec.format = with_scales(spec.format, scale_for(profiled_range(node, operand), integers->width));
  }
  config[prefix + "_name"] = std::string(format_name(spec.format));
  for (const auto& [key, value] : quant_spec_keys(spec)) config[fmt::format("{}_{}", prefix, key)] = value;
  if (const auto fixed = fixed_point(spec.format))
    config[prefix + "_frac_width"] = fraction_bits(profiled_range(node, operand), fixed->width);
}

}  // namespace

std::span<const QuickstartScheme> quickstart_schemes() {
  static const std::vector<QuickstartScheme> schemes = {
      {"fixed8", "fixed point, W8 A8", "fixed:width=8", "fixed:width=8"},
      {"fixed4", "fixed point, W4 A8", "fixed:width=4", "fixed:width=8"},
      {"affine8", "affine, W8 per channel, A8", "affine:width=8,symmetric=true,granularity=channel",
       "affine:width=8,signed=false"},
      {"affine4", "affine, W4 per channel, A8", "affine:width=4,symmetric=true,granularity=channel",
       "affine:width=8,signed=false"},
      {"fp8", "fp8_e4m3fn, W and A", "fp8_e4m3fn", "fp8_e4m3fn"},
      {"minifloat6", "minifloat_ieee W6 (3 exponent bits), A8",
       "minifloat_ieee:width=6,exponent_width=3,exponent_bias=6", "fp8_e4m3fn"},
      {"log6", "log W6, fixed A8", "log:width=6,exponent_bias=14", "fixed:width=8"},
      {"block_fp", "block_fp W6 A8, blocks of 16", "block_fp:width=6,exponent_width=8,block_size=16",
       "block_fp:width=8,exponent_width=8,block_size=16"},
      {"mxfp8", "mx e4m3, W and A", "mx:element=e4m3", "mx:element=e4m3"},
      {"mxfp4", "mx e2m1 W, e4m3 A", "mx:element=e2m1", "mx:element=e4m3"},
      {"nvfp4", "nvfp4 W, mx e4m3 A", "nvfp4", "mx:element=e4m3"},
      {"ternary", "ternary W per channel, fixed A8", "ternary:scaling_factor=true,granularity=channel",
       "fixed:width=8"},
      {"binary", "binary W per channel, fixed A8", "binary:scaling=per_channel", "fixed:width=8"},
  };
  return schemes;
}

Table quickstart_profile_options(const Graph& graph) {
  const List layers = layer_list(graph);
  Table options = {{"by", "type"}, {"target_weight_nodes", layers}, {"target_activation_nodes", layers}};
  options["num_samples"] = 256;
  options.table("weight_statistics").table("range_min_max");
  options.table("activation_statistics").table("range_min_max");
  return options;
}

Table scheme_config(const Graph& profiled, const QuickstartScheme& scheme) {
  Table options = {{"by", "name"}, {"report", false}};
  for (const Node& node : profiled.nodes()) {
    if (!is_weighted_sum(node)) continue;
    Table& config = options.table(node.name).table("config");
    config["name"] = "fixed";
    add_operand(node, "data_in_0", "data_in", scheme.data_in, config);
    add_operand(node, "weight", "weight", scheme.weight, config);
    if (node.find_parameter("bias") != nullptr) add_operand(node, "bias", "bias", "fixed:width=8", config);
  }
  return options;
}

}  // namespace detent
