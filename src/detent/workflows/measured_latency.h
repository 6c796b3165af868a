#pragma once

#include "detent/graph/graph.h"

namespace detent {

/// Seconds that the fast engine takes for a sample, the least of some runs; sizes that the network leaves
/// open have their usual values.
double measured_latency(const Graph& graph);

}  // namespace detent
