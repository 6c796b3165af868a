#include "detent/cli/network/accumulators.h"

#include "detent/workflows/accumulator_report.h"

namespace detent {

void say_accumulators(const Graph& graph, const Dataset& dataset, CommandResults& results) {
  const AccumulatorReport report = accumulator_report(graph, dataset);
  if (report.layers.empty()) return;
  results.say("\n" + accumulated_layers_table(report.layers).to_text() +
              accumulated_layers_text(report.layers, report.samples));
  results.add("accumulators",
              Table{{"samples", report.samples}, {"layers", accumulated_layers_list(report.layers)}});
}

}  // namespace detent
