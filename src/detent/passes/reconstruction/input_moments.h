#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/passes/reconstruction/gram.h"
#include "detent/passes/reconstruction/staged_run.h"

namespace detent {

/// What all rows of a layer, the node at `index`, see, by group. Both runs go on to the layer; with
/// `in_float`, a run of the network in float, there are shifts.
std::vector<InputMoments> input_moments(const Node& layer, size_t index, StagedRun& run, StagedRun* in_float,
                                        const std::string& where);

}  // namespace detent
