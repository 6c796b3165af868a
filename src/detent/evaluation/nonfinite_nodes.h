#pragma once

#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Nodes that give NaN or infinities for these inputs, in the order in which they compute; an input that has
/// some is the first. A node that cannot take the values of the one before it ends the list.
std::vector<std::string> nonfinite_nodes(const Program& program, std::span<const Tensor> inputs);

/// "the first node whose output is not finite is "fc" (linear), whose weight is not finite either"
std::string describe_nonfinite(const Graph& graph, const std::vector<std::string>& nodes);

}  // namespace detent
