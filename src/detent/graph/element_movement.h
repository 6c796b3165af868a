#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "detent/core/strided_view.h"
#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Copies of a node into its result `index` from inputs of these shapes; empty for a view, whose result has
/// the elements of its first input in order.
std::vector<StridedCopy> movement_copies(const Node& node, std::span<const Shape> inputs, const Shape& result,
                                         size_t index = 0);
/// Result `index` of a node that only moves elements of its inputs, the tensors among them, whatever their
/// type. `fill`, as int32, is what padding consists of: 0 where elements do not take 4 bytes (codes or
/// float32). `shape` is that of the result.
Tensor moved_elements(const Node& node, std::span<const Tensor> inputs, const Shape& shape, int32_t fill,
                      size_t index = 0);

/// Which position of a dimension of `size` stands at `position` where the dimension has a border of that mode
/// of `dynamic_pad`: itself where it lies inside, -1 for the border's value. Throws Error where a mode has
/// nothing to repeat.
int64_t border_source(int64_t position, int64_t size, std::string_view mode);

}  // namespace detent
