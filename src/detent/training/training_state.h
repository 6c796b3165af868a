#pragma once

#include <filesystem>
#include <optional>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/graph/graph_parameters.h"

namespace detent {

/// Position of a training, between two steps of the optimizer.
struct TrainingProgress {
  int64_t epoch = 1;
  int64_t batches = 0;
  int64_t order_seed = 0;
  int64_t global_step = 0;
  std::optional<double> best;
  std::optional<double> to_improve;
  int64_t epochs_without_improvement = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    constexpr Between kCount{0, 1e15};
    visit("epoch", self.epoch, "to resume with, from 1", Between{1, 1e15});
    visit("batches", self.batches, "of that epoch that are done", kCount);
    visit("order_seed", self.order_seed, "of the order of its samples, where some batches are done");
    visit("global_step", self.global_step, "steps of the optimizer that are done", kCount);
    visit("best", self.best, "monitored value of the best epoch");
    visit("to_improve", self.to_improve, "monitored value that patience compares with");
    visit("epochs_without_improvement", self.epochs_without_improvement, "for patience", kCount);
  }
};

/// Everything needed to resume a training as if it had not been interrupted.
struct TrainingState {
  TrainingProgress progress;
  StateDict network;
  StateDict optimizer;  // see ParameterOptimizer::state
  StateDict averages;   // see WeightAverage::state
  /// uint8 [workers, bytes]: the state of each worker.
  Tensor workers;
};

/// A TrainingState with the program's additions.
struct SavedTraining {
  TrainingState state;
  /// Settings that must be the same when it is resumed.
  Table settings;
  /// Lengths of the logs that were written so far, by name.
  Table logs;
};

/// A safetensors file: the tensors "network.<name>", "optimizer.<name>", "average.<name>" and "workers"; as
/// metadata "format", and "progress", "settings" and "logs" as JSON. It appears when it is complete.
void write_training(const std::filesystem::path& path, const SavedTraining& saved);

/// Throws Error naming the file on one that is damaged or none of these. Tensors borrow from the mapped file.
SavedTraining read_training(const std::filesystem::path& path);

}  // namespace detent
