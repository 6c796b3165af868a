#pragma once

#include <string>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// A node that computes in float between nodes on quantized integers.
struct FloatNode {
  std::string name;
  std::string op;
  std::string why;
};

/// Those of a network that is quantized for integers, or those that there will be where `detent quantize`
/// quantizes it. None of a network that has formats for a simulation.
std::vector<FloatNode> float_nodes(const Graph& graph);

/// "3 x layer_norm (no integer form), 1 x div (divides by a tensor)"
std::string float_nodes_text(const std::vector<FloatNode>& nodes);

}  // namespace detent
