#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/float32/float_node.h"

namespace detent {

/// A parameter of a node as its quantizers leave it, where somebody else than the node has it.
using GiveParameter = std::function<std::optional<Tensor>(const Node& node, std::string_view name)>;

/// Computes the nodes of a graph that have no integer form, by the operators of this layer (float_node.h):
/// the same bits on every processor, and those of the simulation.
class FloatNodes {
 public:
  explicit FloatNodes(GiveParameter give = {}) : give_(std::move(give)) {}

  /// The node's results before they are rounded. `inputs` are values as its quantizers leave them; constant
  /// inputs need not be given. Several threads may ask at once; nodes have different names.
  std::vector<FloatFlow> results(const Node& node, std::span<const FloatFlow> inputs) const;
  /// The same by the node's operator, which a caller need not look up each time.
  std::vector<FloatFlow> results(const FloatOperator& op, const Node& node,
                                 std::span<const FloatFlow> inputs) const;
  /// The node's parameters as its quantizers leave them, rounded once.
  const NamedTensors& parameters_of(const Node& node) const;

 private:
  GiveParameter give_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, NamedTensors> parameters_;
};

/// A parameter of a layer or norm, of which subnormal numbers count as 0: processors take some hundred cycles
/// for each product of one, and weights that training decayed towards 0 may have thousands.
Tensor without_subnormals(const Node& node, Tensor parameter);
/// The node's parameters as its quantizers leave them in inference, without subnormals.
NamedTensors rounded_parameters(const Node& node);

}  // namespace detent
