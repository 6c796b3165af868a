#include "detent/workflows/quantize_network.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/language/cache_format.h"
#include "detent/passes/pipeline.h"
#include "detent/passes/post_training/static_quantize.h"
#include "detent/workflows/quantize_passes.h"

namespace detent {
namespace {

constexpr const char* kStaticQuantize = "static_quantize";
constexpr const char* kFinish = "finish_qat";

/// The passes before that which quantizes, that one, and those that follow.
std::pair<Table, Table> split_passes(const Table& passes) {
  Table before;
  Table rest;
  for (const auto& [name, options] : passes) {
    Table& part = rest.empty() && name != kStaticQuantize && name != kFinish ? before : rest;
    part[name] = options;
  }
  return {std::move(before), std::move(rest)};
}

/// Whether a pass makes weights better before they are quantized, and is not among the usual preparation.
bool is_asked_for_before(const std::string& name) {
  const std::vector<std::string> usual = QuantizeWish().prepare;
  return find_pass(name).stage == PassStage::kBeforeQuantizing &&
         std::ranges::find(usual, name) == usual.end();
}

}  // namespace

int64_t most_calibration_samples(const Table& passes) {
  int64_t most = 0;
  for (const auto& [name, given] : passes) {
    const auto& fields = find_pass(name).options;
    const auto field = std::ranges::find(fields, "num_samples", &FieldDescription::name);
    if (field == fields.end()) continue;
    const Value* number = given.get_if<Table>()->find("num_samples");
    most = std::max<int64_t>(
        most, number == nullptr ? std::stoll(field->default_value) : *number->get_if<int64_t>());
  }
  return most;
}

Table finishing_passes(const Table& passes) {
  constexpr const char* kStays = "the network brings its quantizers, which stay as they were trained";
  Table finishing;
  for (const auto& [name, options] : passes) {
    if (finishing.contains(kFinish) || is_asked_for_before(name)) fail("--improve {}: {}", name, kStays);
    if (name != kStaticQuantize) {
      finishing[name] = options;
      continue;
    }
    Table taken;
    for (const auto& [key, value] : *options.get_if<Table>()) {
      std::string flag = key;
      std::ranges::replace(flag, '_', '-');
      const bool is_taken = key == "requantization" || key == "accumulator";
      if (is_taken) taken[key] = value;
      if (!is_taken && key != "report") fail("--{}: {}", flag, kStays);
    }
    finishing[kFinish] = std::move(taken);
  }
  return finishing;
}

QuantizedGraphs quantize_network(const Graph& graph, const Table& passes, PassContext& context,
                                 const std::optional<Format>& cache_format) {
  QuantizedGraphs graphs;
  graphs.quantized = graph;
  find_pass("init_metadata").run(graphs.quantized, {}, context);
  auto [prepare, quantize] = split_passes(passes);
  run_pipeline(graphs.quantized, prepare, "", context);
  graphs.reference = graphs.quantized;
  run_pipeline(graphs.quantized, quantize, "", context);
  if (cache_format) quantize_cache(graphs.quantized, *cache_format);
  for (const auto& [name, options] : prepare)
    if (is_asked_for_before(name)) graphs.passes[name] = options;
  for (auto& [name, options] : quantize) graphs.passes[name] = std::move(options);
  return graphs;
}

namespace {

/// Quantizes again without these nodes; nothing where no layer would be left, or they are in float already,
/// and then false.
bool leave_in_float(QuantizedGraphs& graphs, const std::vector<std::string>& nodes, PassContext& context,
                    const std::optional<Format>& cache_format) {
  Table passes = graphs.passes;
  Table& options = passes.table(kStaticQuantize);
  const Value* const given = options.find("keep_float");
  const List before = given != nullptr ? *given->get_if<List>() : List();
  List kept;
  for (const std::string& node : nodes)
    if (std::ranges::find(before, Value(node)) == before.end()) kept.emplace_back(node);
  if (kept.empty()) return false;
  std::ranges::copy(before, std::back_inserter(kept));
  options["keep_float"] = std::move(kept);
  Graph quantized = graphs.reference;
  context.float_network = nullptr;
  try {
    run_pipeline(quantized, split_passes(passes).second, "", context);
  } catch (const NothingToQuantize&) {
    return false;
  }
  if (cache_format) quantize_cache(quantized, *cache_format);
  graphs.quantized = std::move(quantized);
  graphs.passes = std::move(passes);
  return true;
}

bool gives_nonfinite(const LayerwiseErrors& errors) {
  return std::ranges::any_of(errors.outputs,
                             [](const OutputError& output) { return std::isinf(output.noise); });
}

/// As x / sum(x) gives NaN where all x round to 0.
LayerwiseErrors errors_of(QuantizedGraphs& graphs, PassContext& context,
                          const std::optional<Format>& cache_format) {
  constexpr int kMostTries = 16;
  for (int tries = 0;; ++tries) {
    std::optional<LayerwiseErrors> errors;
    std::string obstacle;
    try {
      errors = analyze_layerwise_error(graphs.reference, graphs.quantized, kErrorAnalysisSamples, context);
      if (!gives_nonfinite(*errors)) return *std::move(errors);
    } catch (const Error& error) {
      obstacle = error.what();
    }
    const std::vector<std::string> nodes = first_nonfinite(graphs.reference, graphs.quantized, context);
    if (nodes.empty() && errors) return *std::move(errors);
    if (nodes.empty()) throw Error(obstacle);
    const std::string what =
        fmt::format("the first node whose result is not finite, as it is in float, is \"{}\" ({})",
                    nodes.front(), graphs.quantized.node(nodes.front()).op);
    if (tries == kMostTries || !leave_in_float(graphs, nodes, context, cache_format)) {
      if (errors) return *std::move(errors);
      throw Error(fmt::format("{}; {}", obstacle, what));
    }
    context.warn(fmt::format("{}; quantized again with it and what comes before it in float: {}", what,
                             fmt::join(nodes, ", ")));
  }
}

/// Fewer bits and narrow accumulators spoil layers because they were asked for.
bool has_usual_precision(const Table& passes) {
  StaticQuantizeOptions options;
  read_fields(options, *passes.find(kStaticQuantize)->get_if<Table>(), kStaticQuantize);
  return !options.is_below_eight_bits() && options.accumulator.empty();
}

/// Quantizes again without the nodes that spoil the outputs, as long as that helps: where x + k - k is in
/// float, the codes of x + k still round to steps of k.
void leave_spoilt_in_float(QuantizedGraphs& graphs, PassContext& context,
                           const std::optional<Format>& cache_format, LayerwiseErrors& errors) {
  constexpr int kMostTries = 4;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::vector<std::string> spoilt = spoilt_nodes(errors);
    QuantizedGraphs changed = graphs;
    if (spoilt.empty() || !leave_in_float(changed, spoilt, context, cache_format)) return;
    LayerwiseErrors now = errors_of(changed, context, cache_format);
    if (tries > 0 && !(now.output_sqnr_db > errors.output_sqnr_db)) return;
    context.warn(fmt::format("{}; quantized again with those nodes in float whose rounding costs most: {}",
                             output_sqnr_text(errors), fmt::join(spoilt, ", ")));
    graphs = std::move(changed);
    errors = std::move(now);
  }
}

/// The errors of a network that gives what float does, as far as nodes in float help.
LayerwiseErrors settled_errors(QuantizedGraphs& graphs, PassContext& context,
                               const std::optional<Format>& cache_format) {
  LayerwiseErrors errors = errors_of(graphs, context, cache_format);
  if (has_usual_precision(graphs.passes)) leave_spoilt_in_float(graphs, context, cache_format, errors);
  return errors;
}

bool rounds_activations(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return std::ranges::any_of(node.quantization,
                               [](const auto& entry) { return entry.first.starts_with("data_"); });
  });
}

bool is_sound(const QuantizedGraphs& graphs, PassContext& context) {
  if (!rounds_activations(graphs.quantized)) return true;
  try {
    const LayerwiseErrors errors =
        analyze_output_errors(graphs.reference, graphs.quantized, kErrorAnalysisSamples, context);
    return !gives_nonfinite(errors) && !(has_usual_precision(graphs.passes) && is_useless(errors));
  } catch (const Error&) {  // of a node that takes no NaN
    return false;
  }
}

}  // namespace

void settle_quantization(QuantizedGraphs& graphs, PassContext& context,
                         const std::optional<Format>& cache_format) {
  if (!is_sound(graphs, context)) settled_errors(graphs, context, cache_format);
}

QuantizationAnalysis analyze_quantization(QuantizedGraphs& graphs, PassContext& context,
                                          const std::optional<Format>& cache_format) {
  QuantizationAnalysis analysis;
  analysis.errors = settled_errors(graphs, context, cache_format);
  analysis.advice = advise_quantization(graphs.network(), analysis.errors, context);
  return analysis;
}

}  // namespace detent
