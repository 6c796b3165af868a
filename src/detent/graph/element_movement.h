#pragma once

#include <span>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/graph/strided_view.h"

namespace detent {

/// The elements of `from` in the order of the view.
Tensor gathered(const Tensor& from, const StridedView& view);

/// What a node copies into its result `index` from inputs of these shapes; nothing of a view, whose result
/// has the elements of its first input in their order.
std::vector<StridedCopy> movement_copies(const Node& node, std::span<const Shape> inputs, const Shape& result,
                                         size_t index = 0);
/// A result of these copies, which fill it.
Tensor copied_elements(std::span<const Tensor> inputs, std::span<const StridedCopy> copies,
                       const Shape& shape);

/// Result `index` of a node that only moves elements of its inputs, the tensors among them, whatever their
/// type. `fill`, as int32, is what padding consists of: 0 where elements do not take 4 bytes (codes or
/// float32). `shape` is that of the result.
Tensor moved_elements(const Node& node, std::span<const Tensor> inputs, const Shape& shape, int32_t fill,
                      size_t index = 0);

}  // namespace detent
