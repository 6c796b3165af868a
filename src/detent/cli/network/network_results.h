#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "detent/cli/results.h"
#include "detent/cli/torch_command.h"
#include "detent/core/process_group.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"
#include "detent/workflows/network_report.h"

namespace detent {

/// Options that the command was given; only the first worker of `group` has results.
ResultOptions result_options(const TorchCommand& command, ProcessGroup& group);

/// Adds the options that differ from their defaults, and the passes.
void add_configuration(CommandResults& results, const TorchCommand& command);

/// Adds the network, with histograms of what its quantized operands hold while it computes some of the
/// samples: in float, where `floats`, the network before it was quantized, is given. Nothing where the
/// results are not kept.
void add_network(CommandResults& results, const Graph& graph, const Graph* floats, const Dataset& dataset);

/// Says and adds, under "accumulators", what overflows in the layers that have accumulators; nothing where
/// none has.
void say_accumulators(const Graph& graph, const Dataset& dataset, CommandResults& results);

/// Whether an accuracy has fallen by 5 points or more, and farther than chance explains: by twice the
/// standard error of the difference.
inline bool is_large_drop(double before, double after, int64_t samples) {
  constexpr double kLarge = 0.05;
  const double variance = (before * (1 - before) + after * (1 - after)) / static_cast<double>(samples);
  return before - after >= kLarge && before - after >= 2 * std::sqrt(variance);
}

}  // namespace detent
