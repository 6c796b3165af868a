#pragma once

#include <cstdint>

#include "detent/graph/graph.h"

namespace detent {

/// What the inputs and results of one node should take at most, where samples are to run several at once:
/// about what the processor's caches hold, with parameters that are used for some samples each time that they
/// are fetched.
constexpr int64_t kActivationBytes = int64_t{24} << 20;

/// How many samples may run at once where no node's inputs and results together are to take more than
/// `bytes`; at least 1, and any number where the graph's inputs have a fixed number of samples.
int64_t samples_within(const Graph& graph, int64_t bytes);

}  // namespace detent
