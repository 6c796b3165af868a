#pragma once

#include <cstddef>
#include <string>

#include "detent/graph/graph.h"

namespace detent {

/// What the model that a network was read from calls result `i` of a node, of the output node output `i`; or
/// else `own_name`.
std::string source_name_or(const Node& node, size_t i, const std::string& own_name);

/// What it calls a value, or else the value's own name.
std::string source_name(const Graph& graph, const NodeInput& value);

}  // namespace detent
