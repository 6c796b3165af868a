#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "detent/cli/network/commands.h"
#include "detent/cli/network/network_results.h"
#include "detent/cli/network/result_folder.h"
#include "detent/cli/network/session.h"
#include "detent/cli/results.h"
#include "detent/core/log.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/evaluate.h"
#include "detent/passes/pipeline.h"
#include "detent/report/network.h"
#include "detent/workflows/network_data.h"

namespace detent {
namespace {

/// Whether scales have yet to be observed in the first steps of training: nothing can be rounded before.
bool awaits_training(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    for (const auto& [operand, quantizer] : node.quantization) {
      if (quantizer->observer && quantizer->observer->done == 0) return true;
    }
  }
  return false;
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): the steps of the command, one after the other
void run_transform(const TorchCommand& command, ProcessGroup& group) {
  CommandResults results(command.name, result_options(command, group));
  const Pipeline pipeline(command.passes, command.config_file);
  const TrainingSplits splits = load_training_splits(command);
  const Dataset& training_set = *splits.training;
  const Dataset& validation_set = *splits.validation;
  const int64_t batch_size = command.options.training.batch_size;
  // Where calibration samples have no labels, those of the validation say how many classes there are.
  const Graph loaded = load_network(command, training_set.has_labels() ? training_set : validation_set);
  Graph graph = without_batches_that_mix(loaded, training_set);
  check_workers_agree_on_inputs(
      graph, {{"training samples", &training_set}, {"validation samples", &validation_set}}, group);
  if (!command.options.load) log_warning("no --load: the network has its initial, untrained weights");

  pipeline.check(graph);
  const std::filesystem::path output_dir = command.result_folder;
  ResultFolder result(command, {.results = output_dir, .network = output_dir / "transformed_ckpt"}, graph,
                      pipeline, training_set.size(), group);

  // The original takes a first batch here to trace the network; shapes need none, but its two draws from the
  // generator decide which samples are profiled afterwards.
  command.random.draw_order_seed();

  FastExecutor executor;
  List reported;
  PassContext context = make_pass_context(training_set, command.random, batch_size, output_dir, executor,
                                          [&](const std::string& text) {
                                            results.say(text);
                                            reported.emplace_back(text);
                                          });
  context.group = &group;
  context.outputs = result.outputs();
  context.loader_threads = command.options.num_workers;
  context.checkpoint_every = command.options.checkpoint_every;

  if (validation_set.has_labels()) {
    context.score = [&](const Graph& network) {
      const Metrics metrics = evaluate(*FastExecutor().compile(network), network, validation_set, batch_size,
                                       group, command.options.num_workers);
      return Score{metrics.accuracy(), metrics.standard_error(), metrics.loss()};
    };
  }

  const bool compare = pipeline.changes_network();
  const auto measure = [&]() -> std::optional<Metrics> {
    if (!compare || !validation_set.has_labels() || awaits_training(graph)) return std::nullopt;
    return evaluate(*FastExecutor().compile(graph), graph, validation_set, batch_size, group,
                    command.options.num_workers);
  };
  const std::optional<Metrics> before = measure();
  const StorageBits bits_before = storage_bits(graph);
  pipeline.run(graph, context);
  const std::optional<Metrics> after = measure();
  if (before && after) {
    results.say(fmt::format("validation before: {}\nvalidation after:  {}\n", before->text(), after->text()));
  } else if (before) {
    results.say(
        fmt::format("validation before: {}\nvalidation after:  not before training has collected scales\n",
                    before->text()));
  } else if (compare) {
    results.say(fmt::format("accuracy: not measured, {} has no labels\n", validation_set.source()));
  }
  result.save_for_mase(
      graph, command.options.packed_weights.value_or(false) ? StoredWeights::kPacked : StoredWeights::kFloat);
  results.say(fmt::format("transformed graph: {}\n", result.graph_path().string()));
  if (!group.is_first()) return;
  if (before && after)
    results.add("accuracy", List{accuracy_row("before", *before), accuracy_row("after", *after)});
  results.add("sizes",
              Table{{"before", size_table(bits_before)}, {"after", size_table(storage_bits(graph))}});
  results.add("reported", std::move(reported));
  results.add("graph", result.graph_path().string());
  add_configuration(results, command);
  if (!awaits_training(graph)) {
    add_network(results, graph, nullptr, validation_set);
  } else if (results.are_kept()) {
    results.add("network", network_value(graph, {}));  // it cannot run yet
  }
  results.finish();
}

}  // namespace detent
