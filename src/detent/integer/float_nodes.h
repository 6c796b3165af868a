#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/graph/graph.h"

namespace detent {

/// What flows into or out of a node that computes in float: a tensor of any element type, a number, or
/// nothing.
struct FloatFlow {
  Tensor tensor;
  Value number = {};  // NA of a tensor
  bool is_absent = false;
};

/// Computes in float the nodes of a graph that have no integer form, with the values that the simulation has.
class FloatNodes {
 public:
  virtual ~FloatNodes() = default;
  /// The node's results before they are rounded. `inputs` are values as its quantizers leave them; constant
  /// inputs need not be given. Several threads may ask at once.
  virtual std::vector<FloatFlow> results(const Node& node, std::span<const FloatFlow> inputs) const = 0;
};

/// Makes them for a graph, which outlives them.
using MakeFloatNodes = std::function<std::unique_ptr<const FloatNodes>(const Graph&)>;

}  // namespace detent
