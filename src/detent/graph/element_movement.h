#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Strided view of a tensor's memory: element (i, j, ...) at offset + i * strides[0] + j * strides[1] + ...,
/// in elements.
struct StridedView {
  Shape shape;
  std::vector<int64_t> strides;
  int64_t offset = 0;

  /// A row-major tensor of this shape.
  static StridedView of(const Shape& shape);
  /// A tensor of shape `from` broadcast to `to`.
  static StridedView broadcast(const Shape& from, const Shape& to);

  /// Whether it is contiguous and row-major.
  bool is_contiguous() const;
  /// Whether strides do not increase.
  bool keeps_order() const;
  /// Composes this view with `inner`; nullopt if no strides express it.
  std::optional<StridedView> over(const StridedView& inner) const;
};

/// Copies elements `from` an input `to` the result; both have one shape.
struct StridedCopy {
  size_t input = 0;
  StridedView from;
  StridedView to;
};

/// The elements of `from` in the order of the view.
Tensor gathered(const Tensor& from, const StridedView& view);

/// Copies of a node into its result `index` from inputs of these shapes; empty for a view, whose result has
/// the elements of its first input in order.
std::vector<StridedCopy> movement_copies(const Node& node, std::span<const Shape> inputs, const Shape& result,
                                         size_t index = 0);
/// A result completely filled by these copies.
Tensor copied_elements(std::span<const Tensor> inputs, std::span<const StridedCopy> copies,
                       const Shape& shape);

/// Result `index` of a node that only moves elements of its inputs, the tensors among them, whatever their
/// type. `fill`, as int32, is what padding consists of: 0 where elements do not take 4 bytes (codes or
/// float32). `shape` is that of the result.
Tensor moved_elements(const Node& node, std::span<const Tensor> inputs, const Shape& shape, int32_t fill,
                      size_t index = 0);

/// Two operands broadcast to the shape of their result (numpy's rule); a single element stays one, with a
/// step of 0.
struct BroadcastPair {
  Tensor a;
  Tensor b;
  Shape shape;
  int64_t a_step;
  int64_t b_step;

  BroadcastPair(const Tensor& left, const Tensor& right);
};

/// Broadcast to `shape`; a single element stays one.
Tensor broadcast(const Tensor& tensor, const Shape& shape);

/// Which position of a dimension of `size` stands at `position` where the dimension has a border of that mode
/// of `dynamic_pad`: itself where it lies inside, -1 for the border's value. Throws Error where a mode has
/// nothing to repeat.
int64_t border_source(int64_t position, int64_t size, std::string_view mode);

}  // namespace detent
