#pragma once

#include <filesystem>
#include <optional>

#include "detent/cli/torch_command.h"
#include "detent/core/process_group.h"
#include "detent/datasets/dataset.h"
#include "detent/files/output_folder.h"
#include "detent/graph/graph.h"
#include "detent/graph/graph_parameters.h"
#include "detent/training/metrics_log.h"
#include "detent/training/trainer.h"

namespace detent {

/// The files of one training, in <software>/training_ckpts. Each appears when it is complete. Every worker
/// has such an object; only the first writes.
///
///     last.ckpt                    the network after the last epoch, or where it was saved between epochs
///     best.ckpt                    the network after the best epoch
///     transformed_ckpt/            the same as a graph, for a quantized network
///     training_state.safetensors   all that --resume needs besides best.ckpt
///     metrics.jsonl                see MetricsLog; its TensorBoard twin is in <software>/tensorboard
class TrainingFiles {
 public:
  /// Throws Error where another process writes the folder. With --resume reads what was saved; else removes
  /// it. Removes what killed processes left half written. Throws Error when --resume finds nothing, and
  /// naming the option when it was saved with other settings. Without --resume or --overwrite it throws Error
  /// where a training was saved that this one would not repeat from its beginning to its end.
  TrainingFiles(const TorchCommand& command, const Graph& untrained, const Graph* teacher,
                const Dataset& training_set, ProcessGroup& group);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path state_path() const { return folder_ / "training_state.safetensors"; }
  /// Where to resume; nullptr when training begins.
  const TrainingState* resumed() const { return saved_ ? &saved_->state : nullptr; }
  /// The network of best.ckpt; empty when no epoch was completed before.
  StateDict resumed_best() const;

  void on_epoch(const Graph& graph, const EpochReport& report);
  void on_step(const StepReport& report);
  void save(const TrainingState& state);

 private:
  void write_last(const StateDict& network, int64_t epoch, int64_t global_step);
  void write_graph(const Graph& graph) const;

  std::filesystem::path folder_;
  Table settings_;
  bool writes_;
  bool replaces_ = false;  // the networks of another training, which go before the first one of this appears
  std::optional<FolderLock> lock_;  // where it writes
  std::optional<ClaimedNames> claimed_;
  std::optional<SavedTraining> saved_;
  std::optional<MetricsLog> log_;
};

}  // namespace detent
