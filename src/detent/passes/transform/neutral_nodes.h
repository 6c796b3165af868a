#pragma once

#include <cstddef>

#include "detent/graph/graph.h"

namespace detent {

/// Makes what reads a sum with 0, a difference from it, a product with 1 or a quotient by it read the other
/// operand, and leaves these nodes without readers: a value that is not changed need not be rounded again.
/// The sign of a zero alone may change. Returns how many.
size_t bypass_neutral_nodes(Graph& graph);

}  // namespace detent
