#include "detent/cli/network/network_results.h"

#include <algorithm>

#include "detent/workflows/network_report.h"

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
  results.add("network", reported_network(graph, floats, dataset));
}

void say_accumulators(const Graph& graph, const Dataset& dataset, CommandResults& results) {
  const AccumulatorReport report = accumulator_report(graph, dataset);
  if (report.layers.empty()) return;
  results.say("\n" + accumulated_layers_table(report.layers).to_text() +
              accumulated_layers_text(report.layers, report.samples));
  results.add("accumulators",
              Table{{"samples", report.samples}, {"layers", accumulated_layers_list(report.layers)}});
}

}  // namespace detent
