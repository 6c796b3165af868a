#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "detent/cli/torch_command.h"
#include "detent/core/value.h"
#include "detent/datasets/dataset.h"
#include "detent/evaluation/metrics.h"
#include "detent/graph/graph.h"

namespace detent {

/// Training that the quickstart takes from libtorch.
struct QuickstartTraining {
  /// The parameters of a network before its training, from the seed.
  std::function<void(Graph& graph, uint64_t seed)> initialize;
  /// Trains it on all samples, and returns what the last epoch gave.
  std::function<Metrics(Graph& graph, const Dataset& samples, uint64_t seed, double learning_rate,
                        int64_t epochs)>
      train;
};

/// Trains five small networks, quantizes and fine-tunes them; without `training` takes those that the program
/// has (models/model.h) and leaves fine-tuning out. Prints a table of formats.
void run_quickstart(const TorchCommand& command, const QuickstartTraining* training);

/// One row of the quickstart's table: formats for the weights and for the inputs of every layer that has
/// weights.
struct QuickstartScheme {
  std::string name;  // also the name of its files
  std::string title;
  std::string weight;  // a spec in text form; fixed point gets the fraction bits that its range needs
  std::string data_in;
};

/// From 8 bits down, a row or two for each family of formats.
std::span<const QuickstartScheme> quickstart_schemes();

/// The statistics that scheme_config() reads, as the options of profile_statistics.
Table quickstart_profile_options(const Graph& graph);

/// The options of the quantize pass for a graph whose layers have been profiled: a table a layer.
Table scheme_config(const Graph& profiled, const QuickstartScheme& scheme);

}  // namespace detent
