#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "detent/core/process_group.h"
#include "detent/core/tensor.h"
#include "detent/datasets/dataset.h"
#include "detent/evaluation/metrics.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Runs the program over the whole split, in order. The workers of `group` take turns at the batches; each
/// gets the whole result, with the bits of a single worker. Batches of networks with large activations run
/// in parts, which bounds memory. `loader_threads` prefetch batches; with 0 the network waits for them.
/// Throws Error on a loss that is not finite, naming the samples and the first node whose output is not
/// finite.
Metrics evaluate(const Program& program, const Graph& graph, const Dataset& dataset, int64_t batch_size,
                 ProcessGroup& group = single_process(), int64_t loader_threads = 0);

/// The same, but nothing when `stop` says so. It is asked before each batch, by each worker equally often,
/// and must say the same at all of them.
std::optional<Metrics> evaluate_until(const std::function<bool()>& stop, const Program& program,
                                      const Graph& graph, const Dataset& dataset, int64_t batch_size,
                                      ProcessGroup& group, int64_t loader_threads);

}  // namespace detent
