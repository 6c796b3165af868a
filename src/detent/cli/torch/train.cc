#include <optional>

#include <fmt/core.h>

#include "detent/cli/network/result_folder.h"
#include "detent/cli/network/session.h"
#include "detent/cli/results.h"
#include "detent/cli/torch/commands.h"
#include "detent/cli/torch/training_files.h"
#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/text.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/evaluate.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph/loop.h"
#include "detent/passes/pass.h"
#include "detent/training/trainer.h"
#include "detent/training/width_budget.h"

namespace detent {
namespace {

/// "after epoch 2, step 16" or "in epoch 3 after 5 batches, step 21".
std::string where_it_stopped(const TrainingProgress& progress) {
  return progress.batches == 0
             ? fmt::format("after epoch {}, step {}", progress.epoch - 1, progress.global_step)
             : fmt::format("in epoch {} after {} batches, step {}", progress.epoch, progress.batches,
                           progress.global_step);
}

void print_epoch(const EpochReport& report, int64_t max_epochs) {
  const std::string line =
      fmt::format("epoch {}/{}  train: {}  validation: {}{}  {:.0f} samples/s\n", report.epoch, max_epochs,
                  report.training.text(), report.validation.text(), report.is_best ? "  (best)" : "",
                  report.samples_per_second);
  // A terminal that was closed, or a reader that went away, does not keep the epoch from being saved.
  std::fputs(printable(line).c_str(), stdout);
  std::fflush(stdout);
}

std::string how_to_resume(const TorchCommand& command) {
  return fmt::format("{}resume with\n  {}", command.workers ? "in each process, " : "",
                     resume_command(process_arguments(), command));
}

/// Gives the network the quantizers that --quantize names.
void quantize_for_training(Graph& graph, const Dataset& training_set, const TorchCommand& command,
                           ProcessGroup& group) {
  if (holds_quantizers(graph)) fail("--quantize: graph \"{}\" is quantized already", graph.name());
  FastExecutor executor;
  PassContext context = make_pass_context(training_set, command.random, command.options.training.batch_size,
                                          command.software_dir / "training_ckpts", executor,
                                          [](const std::string& text) { print(text); });
  context.group = &group;
  context.loader_threads = command.options.num_workers;
  context.where = "--quantize";
  const NormFolding folding = command.options.fold_batch_norm;
  find_pass("prepare_qat")
      .run(graph, {{"quantizers", *command.options.quantize}, {"fold_batch_norm", enum_name(folding)}},
           context);
}

std::string describe_widths(const Graph& graph, const TrainingOptions& options) {
  const Interpreter interpreter(graph);
  return fmt::format("learned widths: {:.2f} {}\n", WidthBudget(graph, interpreter, options).cost(),
                     enum_name(options.width_unit));
}

/// Throws Interrupted after a signal.
TrainingOutcome train_with_files(Graph& graph, const Graph* teacher, const Dataset& training_set,
                                 const Dataset& validation_set, const TorchCommand& command,
                                 TrainingFiles& files, StateDict& best, ProcessGroup& group) {
  TrainingHooks hooks;
  hooks.on_epoch = [&](const EpochReport& report) {
    print_epoch(report, command.options.training.max_epochs);
    files.on_epoch(graph, report);
    if (report.is_best) best = state_dict(graph.deep_copy());
  };
  hooks.on_step = [&](const StepReport& report) { files.on_step(report); };
  hooks.save = [&](const TrainingState& state) { files.save(state); };
  hooks.save_every = command.options.checkpoint_every;
  hooks.teacher = teacher;
  hooks.loader_threads = command.options.num_workers;
  hooks.resume = files.resumed();
  hooks.resume_source = files.state_path().string();
  const StopSignals signals(group.is_first()
                                ? "\ndetent: stopping at the next batch, to save; a second signal "
                                  "ends the program at once\n"
                                : "");
  const TrainingOutcome outcome =
      train(graph, training_set, validation_set, command.options.training, hooks, group);
  if (outcome.end == TrainingEnd::kSignal) {
    throw Interrupted(outcome.signal,
                      fmt::format("stopped by {} {}, all is saved; {}", signal_name(outcome.signal),
                                  where_it_stopped(outcome.progress), how_to_resume(command)));
  }
  return outcome;
}

}  // namespace

void run_train(const TorchCommand& command, ProcessGroup& group) {
  const auto [training_set, validation_set] = load_training_splits(command);
  const auto test_set = load_split(command, Split::kTest);
  for (const Dataset* dataset : {training_set.get(), validation_set.get(), test_set.get()}) {
    if (!dataset->has_labels())
      fail("{}: the samples have no labels: there is nothing to learn", dataset->source());
  }
  Graph graph = load_network(command, *training_set);
  say_weights_are_rounded(command.options);
  std::optional<Graph> teacher;
  if (command.options.teacher) teacher = load_teacher(command, *training_set);
  const Graph* teacher_graph = teacher ? &*teacher : nullptr;
  check_workers_agree_on_inputs(graph,
                                {{"training samples", training_set.get()},
                                 {"validation samples", validation_set.get()},
                                 {"test samples", test_set.get()}},
                                group);
  if (command.options.fold_batch_norm != NormFolding::kNo && !command.options.quantize) {
    fail("--fold-batch-norm is for --quantize; the pass prepare_qat has an option of this name");
  }
  if (command.options.quantize) quantize_for_training(graph, *training_set, command, group);
  print(fmt::format("{}: {} trainable parameters{}; {} training samples, {} for validation, from {}\n",
                    graph.name(), graph.parameter_count(), holds_quantizers(graph) ? ", quantized" : "",
                    training_set->size(), validation_set->size(), training_set->source()));

  TrainingFiles files(command, graph, teacher_graph, *training_set, group);
  if (files.resumed() != nullptr) {
    print(fmt::format("resumed {}\n", where_it_stopped(files.resumed()->progress)));
  }
  StateDict best = files.resumed_best();
  const TrainingOutcome outcome =
      train_with_files(graph, teacher_graph, *training_set, *validation_set, command, files, best, group);
  const TrainingOptions& options = command.options.training;
  if (outcome.end == TrainingEnd::kTimeUp) {
    print(fmt::format("max_time is up {}, all is saved; {}\n", where_it_stopped(outcome.progress),
                      how_to_resume(command)));
    return;
  }
  if (outcome.end == TrainingEnd::kNoImprovement) {
    print(fmt::format("no improvement in {} epochs (patience): training ends\n", *options.patience));
  }
  if (!best.empty()) load_state_dict(graph, best, "best.ckpt");
  if (options.width_budget) print(describe_widths(graph, options));
  const Metrics test = evaluate(*FastExecutor().compile(graph), graph, *test_set, options.batch_size, group,
                                command.options.num_workers);
  print(fmt::format("test (best epoch): {}\ncheckpoints: {}\n", test.text(), files.folder().string()));
}

}  // namespace detent
