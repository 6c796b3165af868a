#pragma once

#include <cstdint>

#include "detent/cli/run_options.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"

namespace detent {

/// Writes `options.dump` of the first samples of `dataset`: logits, labels and predictions, the results of
/// the chosen nodes as the next nodes get them, that is after quantization, and index.json. Reports what it
/// wrote. Throws Error where a pattern matches no node, where the network has no integers to write, and where
/// check_dump_folder does.
void write_dump(const RunOptions& options, const Graph& graph, const Dataset& dataset);

}  // namespace detent
