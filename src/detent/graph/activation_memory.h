#pragma once

#include <cstdint>
#include <optional>

#include "detent/graph/graph.h"

namespace detent {

/// How many samples a run takes where the graph's inputs say so, instead of leaving it open.
std::optional<int64_t> fixed_samples(const Graph& graph);

/// How many samples may run at once where no node's inputs and results together are to take more than
/// `bytes`; at least 1, and fixed_samples where there are.
int64_t samples_within(const Graph& graph, int64_t bytes);

}  // namespace detent
