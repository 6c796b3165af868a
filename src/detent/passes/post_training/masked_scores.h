#pragma once

#include <functional>
#include <set>
#include <string>

#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

struct MaskedScores {
  std::set<std::string, std::less<>> in_float;
  /// Softmaxes whose results reach 1 where an input masks all but one score, whatever the samples show.
  std::set<std::string, std::less<>> up_to_one;
};

/// Nodes that hold masked scores of a softmax, or masks on their way there, and so are to compute in float: a
/// score far below the largest one of its row (-inf, the lowest float32, -10000 for what is not to be
/// attended to) counts for nothing, and steps of a range that reaches so far would leave none for the others.
/// A mask that an input gives is one whatever the samples show, others are where their range, over a few
/// calibration samples, is wide. Runs these where there is a softmax after elementwise nodes.
MaskedScores masked_scores(const Graph& graph, const PassContext& context);

}  // namespace detent
