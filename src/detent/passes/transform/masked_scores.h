#pragma once

#include <functional>
#include <set>
#include <string>

#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// Nodes that hold masked scores of a softmax: sums, products and the like, behind which only movements and
/// others of these come before it, whose results reach so far below the largest that a softmax makes exactly
/// 0 of them (-inf, the lowest float32, -10000 for what is not to be attended to). Steps of such a range
/// would leave none for the scores themselves, so these nodes are to compute in float. Runs a few calibration
/// samples, where there is a softmax at all.
std::set<std::string, std::less<>> masked_scores(const Graph& graph, const PassContext& context);

}  // namespace detent
