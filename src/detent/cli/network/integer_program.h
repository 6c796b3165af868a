#pragma once

#include <memory>

#include "detent/cli/run_options.h"
#include "detent/graph/executor.h"

namespace detent {

/// Throws Error where `engine` is kIntegers and the graph is not quantized for integer execution.
void check_engine(const Graph& graph, Engine engine);

/// The graph by the plain reference or the fast engine. Throws Error as check_engine does.
std::unique_ptr<const Program> integer_program(const Graph& graph, Engine engine);

}  // namespace detent
