#pragma once

#include <string>
#include <utility>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// For each operand whose quantizer owns parameters "scale/<node>.<operand>", the mean of its scales, and for
/// an integer format "width/<node>.<operand>", its bits. Scales that cannot be used yet are left out.
std::vector<std::pair<std::string, double>> describe_quantizers(const Graph& graph);

}  // namespace detent
