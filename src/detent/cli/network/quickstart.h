#pragma once

#include <cstdint>
#include <functional>

#include "detent/cli/torch_command.h"
#include "detent/datasets/dataset.h"
#include "detent/evaluation/metrics.h"

namespace detent {

/// What the quickstart takes from libtorch.
struct QuickstartTraining {
  /// The parameters of a network before its training, from the seed.
  std::function<void(Graph& graph, uint64_t seed)> initialize;
  /// Trains it on all samples, and returns what the last epoch gave.
  std::function<Metrics(Graph& graph, const Dataset& samples, uint64_t seed, double learning_rate,
                        int64_t epochs)>
      train;
};

/// Trains five small networks, quantizes and fine-tunes them; without `training` takes those that the program
/// has (models/trained_digits.h) and leaves fine-tuning out. Prints a table of formats.
void run_quickstart(const TorchCommand& command, const QuickstartTraining* training);

}  // namespace detent
