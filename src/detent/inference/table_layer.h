#pragma once

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Result of a layer of truth tables (graph/table_layer.h) for a float32 input. Throws Error naming the node
/// and the element that is not one of its input values.
Tensor table_layer_result(const Node& node, const Tensor& input);

/// The codes of its results, int32, before they become values.
Tensor table_layer_codes(const Node& node, const Tensor& input);

}  // namespace detent
