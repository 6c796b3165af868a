#pragma once

#include "detent/core/random_numbers.h"
#include "detent/graph/graph_parameters.h"

namespace detent {

/// The parameters of a network that PyTorch would make from this seed.
inline void draw_parameters(Graph& graph, uint64_t seed = 0) {
  MersenneTwister generator(seed);
  initialize_parameters(graph, generator);
}

}  // namespace detent
