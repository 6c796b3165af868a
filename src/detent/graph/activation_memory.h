#pragma once

#include <cstdint>

#include "detent/graph/graph.h"

namespace detent {

/// How many samples may run at once where no node's inputs and results together are to take more than
/// `bytes`; at least 1, and any number where the graph's inputs have a fixed number of samples.
int64_t samples_within(const Graph& graph, int64_t bytes);

}  // namespace detent
