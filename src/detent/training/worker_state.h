#pragma once

#include <span>

#include "detent/autograd/interpreter.h"
#include "detent/core/process_group.h"
#include "detent/core/tensor.h"
#include "detent/evaluation/metrics.h"
#include "detent/graph/graph.h"

namespace detent {

/// A training worker's own state between two steps: libtorch's default generator, how often it
/// ran the network, its measurements so far, and what the network tracks (running statistics, observed
/// steps).
struct WorkerState {
  std::span<Metrics> metrics;
  Interpreter& interpreter;
  Graph& graph;
};

/// Every worker gets those of all, uint8 [workers, bytes].
Tensor gather_worker_states(const WorkerState& own, ProcessGroup& group);

/// Sets this worker's part of `states`. Throws Error, beginning with `source`, when they are of another
/// number of workers or another network.
void restore_worker_state(const WorkerState& own, const Tensor& states, const ProcessGroup& group,
                          const std::string& source);

}  // namespace detent
