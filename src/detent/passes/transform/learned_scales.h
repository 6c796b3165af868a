#pragma once

#include <string>

#include "detent/graph/graph.h"

namespace detent {

/// Gives every node the learned scales that its quantization asks for, and removes those that it no longer
/// does. A scale that is there already and has the right shape keeps its value. Others begin as
/// formats/learned_scale.h says. Throws Error, beginning with `where`, where a scale has nothing to begin
/// from.
void place_learned_scales(Graph& graph, const std::string& where);

}  // namespace detent
