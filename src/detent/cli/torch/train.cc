#include <filesystem>

#include <fmt/core.h>

#include "detent/cli/torch/commands.h"
#include "detent/cli/torch/session.h"
#include "detent/graph/state_dict.h"
#include "detent/io/torch_checkpoint.h"
#include "detent/passes/mase_graph.h"
#include "detent/training/trainer.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

void print_epoch(const EpochReport& report, int64_t max_epochs) {
  fmt::print("epoch {}/{}  train: {}  validation: {}{}  {:.0f} samples/s\n", report.epoch, max_epochs,
             report.training.text(), report.validation.text(), report.is_best ? "  (best)" : "",
             report.samples_per_second);
  std::fflush(stdout);
}

/// last.ckpt each epoch, best.ckpt when the validation loss is the smallest so far; for quantized graphs the
/// graph as well, because a state_dict does not hold formats.
void save_checkpoints(const Graph& graph, const EpochReport& report, const fs::path& directory) {
  LightningCheckpoint checkpoint;
  checkpoint.epoch = report.epoch - 1;
  checkpoint.global_step = report.global_step;
  checkpoint.state = state_dict(graph);
  write_lightning_checkpoint(directory / "last.ckpt", checkpoint);
  if (report.is_best) write_lightning_checkpoint(directory / "best.ckpt", checkpoint);
  if (report.is_best && is_quantized(graph)) save_mase_graph(graph, directory / "transformed_ckpt");
}

}  // namespace

void run_train(const TorchCommand& command, ProcessGroup& group) {
  const auto training_set = load_split(command, Split::kTrain);
  const auto validation_set = load_split(command, Split::kValidation);
  const auto test_set = load_split(command, Split::kTest);
  Graph graph = load_network(command, *training_set);
  fmt::print("{}: {} trainable parameters{}; {} training samples from {}\n", graph.name(),
             graph.parameter_count(), is_quantized(graph) ? ", quantized" : "", training_set->size(),
             training_set->source());

  const fs::path directory = command.software_dir / "training_ckpts";
  StateDict best;
  const auto on_epoch = [&](const EpochReport& report) {
    print_epoch(report, command.options.training.max_epochs);
    if (group.is_first()) save_checkpoints(graph, report, directory);
    if (report.is_best) best = state_dict(graph.deep_copy());
  };
  train(graph, *training_set, *validation_set, command.options.training, on_epoch, group);

  if (!best.empty()) load_state_dict(graph, best, "best.ckpt");
  const Metrics test = evaluate(graph, *test_set, command.options.training.batch_size, group);
  fmt::print("test (best epoch): {}\ncheckpoints: {}\n", test.text(), directory.string());
}

}  // namespace detent
