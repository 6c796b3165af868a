#include "detent/workflows/quantize_network.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/language/cache_format.h"
#include "detent/passes/pipeline.h"
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

QuantizationAnalysis analyze_quantization(const QuantizedNetwork& network, PassContext& context) {
  QuantizationAnalysis analysis;
  analysis.errors =
      analyze_layerwise_error(network.reference, network.quantized, kErrorAnalysisSamples, context);
  analysis.advice = advise_quantization(network, analysis.errors, context);
  return analysis;
}

}  // namespace detent
