#pragma once

#include <functional>

#include "detent/core/process_group.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"
#include "detent/training/evaluate.h"
#include "detent/training/options.h"

namespace detent {

/// What one pass over the training set gave.
struct EpochReport {
  int64_t epoch = 0;        // from 1
  int64_t global_step = 0;  // optimizer steps so far
  double learning_rate = 0;
  Metrics training = {};          // while training, over the samples of the epoch
  Metrics validation = {};        // afterwards
  double samples_per_second = 0;  // of training
  bool is_best = false;           // the smallest validation loss so far
};

/// Trains the parameters of `graph` in place, with the quantization of its operands in the loop. `on_epoch`
/// runs after each epoch (and after a last, partial one when max_steps ends training). Throws Error when the
/// loss is no longer finite, naming epoch and step.
///
/// The workers of `group` split each batch and add up their gradients, so that they all hold the network that
/// one worker would train but for the rounding of sums and for batch norm, whose statistics are of a worker's
/// share of the batch while it trains, and averaged over the workers afterwards. `on_epoch` runs at each
/// worker, with the same report but for samples_per_second.
void train(Graph& graph, const Dataset& training_set, const Dataset& validation_set,
           const TrainingOptions& options, const std::function<void(const EpochReport&)>& on_epoch,
           ProcessGroup& group = single_process());

}  // namespace detent
