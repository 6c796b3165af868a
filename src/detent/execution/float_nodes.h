#pragma once

#include <memory>

#include "detent/graph/graph.h"
#include "detent/integer/float_nodes.h"

namespace detent {

/// With the evaluators of the interpreter, bit for bit as it computes in inference.
std::unique_ptr<const FloatNodes> torch_float_nodes(const Graph& graph);

}  // namespace detent
