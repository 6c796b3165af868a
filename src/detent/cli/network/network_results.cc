#include "detent/cli/network/network_results.h"

#include <algorithm>

#include "detent/engine/fast_executor.h"
#include "detent/graph/activation_memory.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/report/network.h"
#include "detent/workflows/checked_integers.h"

namespace detent {

ResultOptions result_options(const TorchCommand& command, ProcessGroup& group) {
  if (!group.is_first()) return {};
  return {.json = command.options.json, .report = command.options.report};
}

void add_configuration(CommandResults& results, const TorchCommand& command) {
  const Table defaults = write_fields(RunOptions());
  Table given;
  for (const auto& [key, value] : write_fields(command.options)) {
    const Value* usual = defaults.find(key);
    if (usual == nullptr || *usual != value) given[key] = value;
  }
  results.add("configuration", std::move(given));
  results.add("passes", command.passes);
}

void add_network(CommandResults& results, const Graph& graph, const Graph* floats, const Dataset& dataset) {
  if (!results.are_kept()) return;
  constexpr int64_t kSamples = 32;
  constexpr double kMostProducts = 2e10;  // a second of a core
  const int64_t count =
      fixed_samples(graph).value_or(affordable_samples(kSamples, multiply_adds(graph), kMostProducts));
  const Graph& observed = floats == nullptr ? graph : *floats;
  const OperandHistograms histograms =
      operand_histograms(graph, *FastExecutor().compile(observed), first_inputs(dataset, count));
  results.add("network", network_value(graph, histograms, floats));
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

}  // namespace detent
