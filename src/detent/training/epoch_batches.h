#pragma once

#include <cstdint>

#include "detent/graph/graph.h"
#include "detent/training/options.h"

namespace detent {

/// How many batches an epoch of `samples` samples has, as drop_last says, where `workers` share each batch.
/// While it trains, batch norm needs two values a channel to compute a variance; a layer that sees only one
/// of each sample (after a linear layer) so needs two samples, and with any batch norm each worker needs
/// one. Batches with fewer are never trained on: a last one is left out with a warning, or an error; where
/// even whole batches are so small, or nothing is left, it is an error.
int64_t batches_of_epoch(const Graph& graph, int64_t samples, const TrainingOptions& options, int workers);

/// As draw_order_seed of evaluation/batches.h, from libtorch's default generator, which it advances by two
/// draws.
int64_t draw_order_seed();

}  // namespace detent
