#pragma once

#include <memory>
#include <optional>

#include "detent/cli/run_options.h"
#include "detent/graph/executor.h"

namespace detent {

/// Throws Error where `engine` is kIntegers and the graph is not quantized for integer execution.
void check_engine(const Graph& graph, Engine engine);

/// The graph by the plain reference or the fast engine. Throws Error as check_engine does.
std::unique_ptr<const Program> integer_program(const Graph& graph, Engine engine);

/// By the engine that was asked for; by none, or the simulation, the fast one in float.
std::unique_ptr<const Program> program_of(Graph graph, std::optional<Engine> engine);

}  // namespace detent
