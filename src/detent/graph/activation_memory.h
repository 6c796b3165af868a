#pragma once

#include <cstdint>
#include <optional>

#include "detent/graph/graph.h"

namespace detent {

/// What the inputs and results of one node should take at most, where samples are to run several at once:
/// about what the processor's caches hold, with parameters that are used for some samples each time that they
/// are fetched.
constexpr int64_t kActivationBytes = int64_t{24} << 20;

/// How many samples a run takes where the graph's inputs say so, instead of leaving it open: one where no
/// first size is that of a batch.
std::optional<int64_t> fixed_samples(const Graph& graph);

/// How many samples may run at once where no node's inputs and results together are to take more than
/// `bytes`; at least 1, and fixed_samples where there are. `sizes` of the named dimensions, batch apart,
/// where they are not the usual ones.
int64_t samples_within(const Graph& graph, int64_t bytes, NamedSizes sizes = {});

}  // namespace detent
