#pragma once

#include <set>
#include <string>

#include "detent/graph/graph.h"

namespace detent {

/// Nodes that only round, which `roundings` names, become quantizers of the operands that read them, which
/// then read what was rounded. Nothing reads those nodes any more.
void move_roundings_to_operands(Graph& graph, const std::set<std::string>& roundings);

/// What all readers round in one way is rounded where it is computed too, or stored as codes where it is a
/// constant, with the same quantizer, unless rounding twice gives something else, as with a scale that
/// follows from the data.
void round_where_computed(Graph& graph);

}  // namespace detent
