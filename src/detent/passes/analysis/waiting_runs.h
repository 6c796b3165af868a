#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "detent/graph/graph.h"

namespace detent {

// Small runs that wait until each thread has one: a step of a small network gains little from threads.

/// How many runs on parts of the network are worth waiting for: 1 inside parallel_for, and of networks whose
/// weights are so large that executors compile them in parts.
int64_t runs_at_once(const Graph& graph);
/// Calls `run(i)` for each i below `count`: one with all threads, several at once with a thread each.
void run_at_once(int64_t count, const std::function<void(size_t)>& run);

}  // namespace detent
