#pragma once

#include <cstdint>

#include "detent/graph/graph.h"

namespace detent {

/// Seeds libtorch's default generator, from which initialisation, shuffling and dropout draw.
void seed_everything(uint64_t seed);

/// As graph/graph_parameters.h says, from that generator.
void initialize_parameters(Graph& graph);

}  // namespace detent
