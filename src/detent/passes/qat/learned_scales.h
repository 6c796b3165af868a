#pragma once

#include <string>

#include "detent/graph/graph.h"

namespace detent {

/// Gives every quantizer the learned scale that its spec asks for, and removes what it does not. A scale that
/// is there already and has the right shape keeps its value. Others begin as formats/groups/learned_scale.h
/// says: from the parameter's values, for an activation from the statistic abs_mean of profile_statistics
/// where that is there (for scales per channel, abs_mean with dims = {keep = [axis]}), else from the format's
/// own scale; where operands share a quantizer as the first of them says. Throws Error, beginning with
/// `where`, where a scale has nothing to begin from.
void place_learned_scales(Graph& graph, const std::string& where);

}  // namespace detent
