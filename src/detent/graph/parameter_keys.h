#pragma once

#include "detent/graph/graph.h"

namespace detent {

/// Layers take the names of their parameters from the modules or initializers that hold them. Where several
/// share one of these, as exporters let them that find equal tensors (a bias of zeros, say), or as a module
/// that is called twice, and differ in another, which a pass may have changed for one of them, each but the
/// first takes its node's name instead: no two tensors of a state_dict have the same name then.
void make_parameter_keys_unique(Graph& graph);

}  // namespace detent
