#pragma once

#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"

namespace detent {

/// The network as it is, or, where two samples of the data set together give other outputs than each alone,
/// with a first size that is no batch (fixed_samples is 1), which it says: exporters leave sizes open that a
/// network folds into others, or needs to be 1.
Graph without_batches_that_mix(const Graph& graph, const Dataset& dataset);

}  // namespace detent
