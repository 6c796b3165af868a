#pragma once

#include <memory>

#include "detent/cli/run_options.h"
#include "detent/graph/executor.h"

namespace detent {

/// The graph in integers, by the plain reference or the fast engine; nodes in float by libtorch. Throws Error
/// where the graph is not quantized for that.
std::unique_ptr<const Program> integer_program(const Graph& graph, Engine engine);

}  // namespace detent
