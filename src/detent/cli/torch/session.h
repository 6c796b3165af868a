#pragma once

#include <memory>

#include "detent/cli/torch_command.h"
#include "detent/datasets/training_splits.h"
#include "detent/graph/graph.h"

namespace detent {

/// All samples of the split, as it was published.
std::unique_ptr<Dataset> load_split(const TorchCommand& command, Split split);

/// What to train on and what to choose the best epoch on, as validation_split says.
TrainingSplits load_training_splits(const TorchCommand& command);

/// The network that the command asks for: built and initialised from the seed, then filled from `load`; or,
/// with load_type mz, read whole. Throws Error when the file and the network do not fit each other or the
/// data.
Graph load_network(const TorchCommand& command, const Dataset& dataset);

/// Whether any operand of the graph is quantized.
bool is_quantized(const Graph& graph);

}  // namespace detent
