#pragma once

#include <memory>

#include "detent/cli/run_options.h"
#include "detent/graph/executor.h"

namespace detent {

/// The graph in integers, by the plain reference or the fast engine, or in float32 where nothing is
/// quantized. Throws Error where the graph is quantized, but not for integers, or not at all and `engine` is
/// kIntegers.
std::unique_ptr<const Program> integer_program(const Graph& graph, Engine engine);

}  // namespace detent
