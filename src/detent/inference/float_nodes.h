#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/inference/float_node.h"

namespace detent {

/// A node's rounded parameter, if held elsewhere.
using GiveParameter = std::function<std::optional<Tensor>(const Node& node, std::string_view name)>;

/// Computes the nodes of a graph that have no integer form, by the operators of this layer (float_node.h):
/// the same bits on every processor, and those of the simulation.
class FloatNodes {
 public:
  /// Tensors that a node has itself, made when it is computed for the first time.
  struct Constants {
    NamedTensors parameters;  // rounded
    DerivedConstants derived;
  };

  explicit FloatNodes(GiveParameter give = {}) : give_(std::move(give)) {}

  /// The node's results before they are rounded. `inputs` are values as its quantizers leave them; constant
  /// inputs need not be given. Several threads may ask at once; nodes have different names.
  std::vector<FloatFlow> results(const Node& node, std::span<const FloatFlow> inputs) const;
  /// The same with the operator and `constants_of` the node already looked up.
  static std::vector<FloatFlow> results(const FloatOperator& op, const Node& node, const Constants& constants,
                                        std::span<const FloatFlow> inputs);
  /// Stays where it is.
  const Constants& constants_of(const Node& node) const;
  const NamedTensors& parameters_of(const Node& node) const { return constants_of(node).parameters; }

 private:
  GiveParameter give_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Constants> constants_;
};

/// A parameter of a layer or norm, with subnormals as 0: a product with one takes some hundred cycles, and
/// weights decayed by training may contain thousands.
Tensor without_subnormals(const Node& node, Tensor parameter);
/// The node's parameters as its quantizers leave them in inference, without subnormals.
NamedTensors rounded_parameters(const Node& node);

}  // namespace detent
