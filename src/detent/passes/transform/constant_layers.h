#pragma once

#include <cstddef>

#include "detent/graph/graph.h"

namespace detent {

/// Makes layers of the convolutions and products of a matrix whose weight is a tensor that the network owns,
/// as it is once what computes it (a standardized or normalized weight) is folded: so it is quantized as
/// weights are, per channel. Returns how many.
size_t make_constant_layers(Graph& graph);

}  // namespace detent
