#pragma once

#include <functional>

#include "detent/graph/graph.h"

namespace detent {

/// The function that a node computes of each element by itself, in double; empty when it is no such node.
std::function<double(double)> unary_function(const Node& node);

}  // namespace detent
