#include "detent/workflows/network_report.h"

#include <algorithm>

#include "detent/engine/fast_executor.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/value_sizes.h"
#include "detent/passes/analysis/layerwise_error.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/report/network.h"
#include "detent/report/page.h"

namespace detent {

Table reported_network(const Graph& graph, const Graph* floats, const Dataset& dataset) {
  constexpr int64_t kSamples = 32;
  constexpr double kMostProducts = 2e10;  // a second of a core
  const Graph& observed = floats == nullptr ? graph : *floats;
  const OperandHistograms histograms = operand_histograms(
      graph, *FastExecutor().compile(observed), first_inputs(graph, dataset, kSamples, kMostProducts));
  return network_value(graph, histograms, floats);
}

Table accuracy_row(const char* network, const Metrics& metrics) {
  return {{"network", network},
          {"samples", metrics.count},
          {"correct", metrics.correct},
          {"accuracy", metrics.accuracy()},
          {"standard_error", metrics.standard_error()},
          {"loss", metrics.loss()}};
}

Table size_table(const StorageBits& bits) {
  return {{"weight_values", bits.weight_values},
          {"weight_bytes", bits.weight_bytes()},
          {"bits_per_weight", bits.average_weight_bits()},
          {"bits_per_activation", bits.average_activation_bits()}};
}

Table quantize_results(const QuantizeFindings& findings) {
  Table results;
  if (findings.analysis != nullptr) {
    const auto& [errors, advice] = *findings.analysis;
    results["outputs"] = table_value(outputs_table(errors));
    results["layerwise_error"] = layerwise_errors_value(errors);
    results["advice"] = advice.text();
    results["tried"] = advice.to_value();
  }
  if (findings.before && findings.after)
    results["accuracy"] = List{accuracy_row(findings.name_before, *findings.before),
                               accuracy_row("quantized", *findings.after)};
  results["sizes"] = Table{{findings.name_before, size_table(findings.bits_before)},
                           {"quantized", size_table(findings.bits_after)}};
  results["integer_execution"] = findings.integer_execution;
  return results;
}

AccumulatorReport accumulator_report(const Graph& graph, const Dataset& dataset) {
  constexpr int64_t kMostSamples = 64;
  constexpr double kMostProducts = 4e9;  // some seconds
  const auto has_one = [](const Node& node) { return accumulator_of(node).has_value(); };
  if (std::ranges::none_of(graph.nodes(), has_one)) return {};
  const std::vector<Tensor> inputs = first_inputs(graph, dataset, kMostSamples, kMostProducts);
  const std::unique_ptr<const Program> program = FastExecutor().compile(graph);
  return {accumulated_layers(graph, *program, inputs), inputs.front().dim(0)};
}

}  // namespace detent
