#include "detent/workflows/quantize_passes.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/graph/accumulator.h"
#include "detent/language/cache_format.h"
#include "detent/language/cached_tensor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/passes/pass.h"
#include "detent/passes/pipeline.h"
#include "detent/passes/post_training/rotation.h"
#include "detent/passes/post_training/static_quantize_options.h"

namespace detent {
namespace {

constexpr const char* kQuantizing = "static_quantize";

void append_passes(const std::string& flag, const std::vector<std::string>& names, PassKind kind,
                   Table& passes) {
  for (const std::string& name : names) {
    try {
      find_pass(name);
    } catch (const Error& error) {
      throw UsageError(fmt::format("{}: {}", flag, error.what()));
    }
    if (find_pass(name).kind != kind || passes.contains(name) || name == kQuantizing) {
      throw UsageError(
          fmt::format("{}: got \"{}\", expected passes that change the network, each once", flag, name));
    }
    passes[name] = Table();
  }
}

/// Passes that look at samples take as many as calibration does, where that was given.
void share_samples(Table& passes) {
  const Value* given = passes.table(kQuantizing).find("num_samples");
  if (given == nullptr) return;
  const Value samples = *given;
  for (auto& [name, options] : passes) {
    if (has_option(find_pass(name), "num_samples")) (*options.get_if<Table>())["num_samples"] = samples;
  }
}

/// Passes that make weights better before they are quantized, unless `prepare` has them, and all others.
std::array<std::vector<std::string>, 2> before_and_after(const std::vector<std::string>& names,
                                                         const Table& prepare) {
  std::array<std::vector<std::string>, 2> parts;
  for (const std::string& name : names) {
    const auto known = std::ranges::find(all_passes(), name, &PassInfo::name);
    const bool is_before = known != all_passes().end() && known->stage == PassStage::kBeforeQuantizing;
    if (!is_before || !prepare.contains(name)) parts[is_before ? 0 : 1].push_back(name);
  }
  return parts;
}

/// Adds the usual improvement: rounding to few bits shifts the means of outputs, and biases that take that
/// back cost nothing.
void append_usual_improvement(const StaticQuantizeOptions& options, Table& passes) {
  if (!options.is_below_eight_bits()) return;
  log_info("improve = bias_correction, as always below 8 bits (--improve none: biases stay as they are)");
  passes["bias_correction"] = Table{{"report", false}};
}

bool has_integers(const AccumulatorChoice& choice) {
  return std::ranges::any_of(choice, [](const std::string& entry) {
    const std::string accumulator = entry.substr(entry.rfind('=') + 1);
    return accumulator != "none" && !Accumulator::parse(accumulator).is_float();
  });
}

/// Before any work: weights of a format that a pass could not choose, or without sums that it could bound.
void check_improvable(const std::vector<std::string>& passes, const StaticQuantizeOptions& options) {
  for (const std::string& name : passes) {
    if (name == "axe" && !has_integers(options.accumulator))
      throw UsageError("--improve axe: it bounds sums in accumulators of integers: --accumulator int16");
    const auto obstacle_of = find_pass(name).weight_obstacle;
    if (obstacle_of == nullptr) continue;
    const auto check = [&](const std::string& flag, const QuantSpec& spec) {
      const std::string obstacle = obstacle_of(spec);
      if (!obstacle.empty()) throw UsageError(fmt::format("--improve {}: {}: {}", name, flag, obstacle));
    };
    if (options.weights.other) check("--weights", *options.weights.other);
    for (const NodeWidths& entry : options.named().entries) {
      const bool is_named = entry.weights && entry.weights->format;
      if (is_named) check("--formats " + entry.pattern, *entry.weights->format);
    }
  }
}

/// Before any work: what the model that -o names could not hold.
void check_output_holds(const StaticQuantizeOptions& options, const std::string& output) {
  const auto check = [&](const std::string& flag, const std::optional<QuantSpec>& spec, bool is_weight) {
    if (!spec) return;
    QuantSpec scaled = *spec;
    scaled.format = with_scale(spec->format);
    const std::string obstacle = style_obstacle(OnnxStyle::kQdq, scaled, is_weight);
    if (obstacle.empty()) return;
    throw UsageError(fmt::format(
        "-o {}: {}: an ONNX model of the style qdq cannot hold {} ({} it can); without -o, the quantized "
        "graph "
        "is written",
        output, flag, obstacle,
        is_weight ? "integers, fp8, fp4, nvfp4 and mx_e4m3, mx_e5m2, mx_e2m1, mx_int8, also in groups,"
                  : "integers and fp8 with a scale for the tensor"));
  };
  check("--weights", options.weights.other, true);
  check("--activations", options.activations.other, false);
  for (const NodeWidths& entry : options.named().entries) {
    if (entry.weights) check("--formats " + entry.pattern, entry.weights->format, true);
    if (entry.activations) check("--formats " + entry.pattern, entry.activations->format, false);
  }
}

}  // namespace

std::vector<FieldDescription> quantize_options() {
  std::vector<FieldDescription> fields = find_pass(kQuantizing).options;
  std::erase_if(fields, [](const FieldDescription& field) { return field.name == "report"; });
  return fields;
}

bool needs_samples(const QuantizeWish& wish) {
  StaticQuantizeOptions given;
  read_fields(given, wish.options, "detent quantize");
  if (given.quantizes_activations()) return true;
  return wish.improve && std::ranges::any_of(*wish.improve, [](const std::string& name) {
           const auto known = std::ranges::find(all_passes(), name, &PassInfo::name);
           return known == all_passes().end() || has_option(*known, "num_samples");
         });
}

void leave_out_samples(QuantizeWish& wish) {
  if (!wish.improve) wish.improve = std::vector<std::string>();
  log_info("no calibration samples: errors are those on random inputs");
}

Table quantize_passes(const QuantizeWish& wish) {
  StaticQuantizeOptions given;
  read_fields(given, wish.options, "detent quantize");
  if (wish.output) check_output_holds(given, *wish.output);
  Table options{{"report", false}};
  for (const auto& [name, value] : wish.options) options[name] = value;
  Table passes;
  append_passes("--prepare", wish.prepare, PassKind::kTransform, passes);
  const auto [before, after] = before_and_after(wish.improve.value_or(std::vector<std::string>()), passes);
  append_passes("--improve", before, PassKind::kTransform, passes);
  passes[kQuantizing] = std::move(options);
  append_passes("--improve", after, PassKind::kTransform, passes);
  check_improvable(after, given);
  if (!wish.improve) append_usual_improvement(given, passes);
  fit_rotated_blocks(passes, given);
  share_samples(passes);
  const Pipeline checked(passes, "");  // refuses before anything is loaded
  return passes;
}

std::optional<Format> cache_format_of(const std::string& text, const std::string& where) {
  if (text.empty()) return std::nullopt;
  return parse_cache_format(text, where);
}

void leave_cache_to_float(Table& passes, const Graph& network, const std::string& where) {
  List products;
  for (const Node& node : network.nodes()) {
    for (const NodeInput& input : node.inputs) {
      if (input.is_constant() || !cache_kind(network.node(input.node))) continue;
      products.emplace_back(node.name);
      break;
    }
  }
  if (products.empty())
    fail("{}: graph \"{}\" is no causal language model: it keeps no keys and values", where, network.name());
  Value* const given = passes.find("static_quantize");
  if (given == nullptr) fail("{}: the network brings its quantizers, which stay as they were trained", where);
  Table& options = *given->get_if<Table>();
  StaticQuantizeOptions others;
  read_fields(others, options, where);
  for (const std::string& pattern : others.keep_float) products.emplace_back(pattern);
  options["keep_float"] = Value(std::move(products));
}

}  // namespace detent
