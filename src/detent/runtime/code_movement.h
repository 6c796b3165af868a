#pragma once

#include <span>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// The result of a node that only moves elements of its inputs: view, reshape, flatten, transpose, permute,
/// expand, slice, select, pad, cat, identity, dropout. Elements take 4 bytes (codes or float32); `fill`, as
/// int32, is what padding consists of. `shape` is that of the result.
Tensor moved_elements(const Node& node, std::span<const Tensor> inputs, const Shape& shape, int32_t fill);

}  // namespace detent
