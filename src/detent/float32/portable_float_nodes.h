#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "detent/float32/float_node.h"
#include "detent/integer/float_nodes.h"

namespace detent {

/// A parameter of a node as its quantizers leave it, where somebody else than the node has it.
using GiveParameter = std::function<std::optional<Tensor>(const Node& node, std::string_view name)>;

/// Computes nodes by the operators of this layer (float_node.h), without libtorch: the same bits on every
/// processor, and those of the simulation. Asked for another operator, it throws Error naming the node. The
/// nodes that it is asked for have different names.
std::unique_ptr<const FloatNodes> portable_float_nodes(GiveParameter give = {});

/// The node's parameters as its quantizers leave them in inference.
NamedTensors rounded_parameters(const Node& node);

}  // namespace detent
