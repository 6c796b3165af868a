#pragma once

#include "detent/cli/results.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"

namespace detent {

/// Says and adds, under "accumulators", what overflows in the layers that have accumulators; nothing where
/// none has.
void say_accumulators(const Graph& graph, const Dataset& dataset, CommandResults& results);

}  // namespace detent
