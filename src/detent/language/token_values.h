#pragma once

#include <cstdint>

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

/// Shapes and types of all values of a run of one sequence of so many tokens.
ValueTypes values_of_tokens(const Graph& graph, int64_t tokens);

}  // namespace detent
