#include <fmt/core.h>

#include "detent/cli/network/commands.h"
#include "detent/cli/network/loaded_network.h"
#include "detent/cli/network/network_results.h"
#include "detent/cli/network/session.h"
#include "detent/cli/results.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/evaluate.h"
#include "detent/graph/loop.h"
#include "detent/inference/plan.h"

namespace detent {

void run_test(const TorchCommand& command, ProcessGroup& group) {
  CommandResults results(command.name, result_options(command, group));
  const auto dataset = load_split(command, Split::kTest);
  const Graph graph = load_network(command, *dataset);
  check_workers_agree_on_inputs(graph, {{"test samples", dataset.get()}}, group);
  const int64_t batch_size = command.options.training.batch_size;
  const int64_t loaders = command.options.num_workers;
  check_engine(graph, command.options.engine);
  if (command.options.dump.folder && group.is_first()) write_dump(command.options, graph, *dataset, results);
  const bool simulates = command.options.engine == Engine::kSimulation;
  const std::unique_ptr<const Program> program =
      simulates ? FastExecutor().compile(graph) : integer_program(graph, command.options.engine);
  if (!simulates && group.is_first() && graph.requantization())
    results.say(plan_summary(integer_plan_with_bodies(graph)));
  const Metrics metrics = evaluate(*program, graph, *dataset, batch_size, group, loaders);
  results.say(fmt::format("{}{}: {} test samples from {}\ntest: {}\n", graph.name(),
                          holds_quantizers(graph) ? " (quantized)" : "", dataset->size(), dataset->source(),
                          metrics.text()));
  if (!group.is_first()) return;
  say_accumulators(graph, *dataset, results);
  results.add("accuracy", List{accuracy_row(holds_quantizers(graph) ? "quantized" : "float", metrics)});
  results.add("sizes",
              Table{{holds_quantizers(graph) ? "quantized" : "float", size_table(storage_bits(graph))}});
  add_configuration(results, command);
  add_network(results, graph, nullptr, *dataset);
  results.finish();
}

}  // namespace detent
