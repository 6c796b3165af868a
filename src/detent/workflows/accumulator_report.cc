#include "detent/workflows/accumulator_report.h"

#include <algorithm>

#include "detent/engine/fast_executor.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/value_sizes.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/workflows/checked_integers.h"

namespace detent {

AccumulatorReport accumulator_report(const Graph& graph, const Dataset& dataset) {
  constexpr int64_t kMostSamples = 64;
  constexpr double kMostProducts = 4e9;  // some seconds
  const auto has_one = [](const Node& node) { return accumulator_of(node).has_value(); };
  if (std::ranges::none_of(graph.nodes(), has_one)) return {};
  const double products = multiply_adds(graph, sizes_of(graph, first_inputs(dataset, 1)));
  const std::vector<Tensor> inputs = first_inputs(
      dataset, affordable_samples(fixed_samples(graph).value_or(kMostSamples), products, kMostProducts));
  const std::unique_ptr<const Program> program = FastExecutor().compile(graph);
  return {accumulated_layers(graph, *program, inputs), inputs.front().dim(0)};
}

}  // namespace detent
