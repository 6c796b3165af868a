#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/process_group.h"
#include "detent/datasets/dataset.h"
#include "detent/evaluation/metrics.h"
#include "detent/graph/graph.h"
#include "detent/training/options.h"
#include "detent/training/training_state.h"

namespace detent {

/// Results of some training steps, over all workers.
struct StepReport {
  int64_t epoch = 0;        // from 1
  int64_t global_step = 0;  // optimizer steps so far
  double learning_rate = 0;
  Metrics training = {};  // of the steps since the last report
  double samples_per_second = 0;
};

/// Results of one pass over the training set.
struct EpochReport {
  int64_t epoch = 0;        // from 1
  int64_t global_step = 0;  // optimizer steps so far
  double learning_rate = 0;
  Metrics training = {};          // while training, over the samples of the epoch
  Metrics validation = {};        // afterwards
  double samples_per_second = 0;  // of training
  bool is_best = false;           // the best of the monitored value so far
  /// Figures of quantizers that own parameters: "scale/fc.weight", its mean, and "width/fc.weight".
  std::vector<std::pair<std::string, double>> quantizers = {};
};

/// Hooks during training, at each worker; reports are the same at each but for samples_per_second.
struct TrainingHooks {
  /// After each epoch (and after a last, partial one when max_steps ends training).
  std::function<void(const EpochReport&)> on_epoch = {};
  /// Every log_every_n_steps steps.
  std::function<void(const StepReport&)> on_step = {};
  /// After each epoch, every `save_every` steps (0: not between epochs), and when a signal or max_time stops
  /// training. The tensors are those that are being trained: they change when the call returns. Either every
  /// worker has this hook or none.
  std::function<void(const TrainingState&)> save = {};
  int64_t save_every = 0;
  /// The teacher, a network with the same inputs and outputs to learn from besides the labels; none: the
  /// labels alone.
  const Graph* teacher = nullptr;
  /// Threads that prefetch batches.
  int64_t loader_threads = 0;
  /// The state to resume from, and its name in messages.
  const TrainingState* resume = nullptr;
  std::string resume_source = {};
};

enum class TrainingEnd {
  kFinished,       // max_epochs or max_steps
  kNoImprovement,  // patience
  kTimeUp,         // max_time
  kSignal,         // StopSignals, at any worker
};

struct TrainingOutcome {
  TrainingEnd end = TrainingEnd::kFinished;
  int signal = 0;  // of kSignal
  TrainingProgress progress = {};
};

/// Trains the parameters of `graph` in place, with the quantization of its operands in the loop. Throws Error
/// when the loss or the norm of the gradient is no longer finite, naming epoch, batch, step and the first
/// node whose output is not, or the loss of a validation, naming epoch, samples and node; nothing is saved
/// then. Throws Error on batches that batch norm cannot be trained on (see epoch_batches.h).
///
/// The workers of `group` split each batch and add up their gradients, so that they all hold the network that
/// one worker would train but for the rounding of sums and for batch norm, whose statistics are of a worker's
/// share of the batch while it trains, and averaged over the workers after an epoch. They stop at the same
/// step.
TrainingOutcome train(Graph& graph, const Dataset& training_set, const Dataset& validation_set,
                      const TrainingOptions& options, const TrainingHooks& hooks = {},
                      ProcessGroup& group = single_process());

}  // namespace detent
