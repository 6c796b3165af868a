#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// Size of a dimension known only at run time: the number of nonzero elements, a shape read from an input.
inline constexpr int64_t kOpenSize = -1;
/// numpy's rule; an open size beside one above 1 is that one. Throws Error when the shapes do not broadcast.
Shape broadcast_shapes(const Shape& a, const Shape& b);

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

/// Copies in row-major order of the shape that both views have.
void copy_elements(const Tensor& input, const StridedView& from, Tensor& result, const StridedView& to);
/// A result completely filled by these copies.
Tensor copied_elements(std::span<const Tensor> inputs, std::span<const StridedCopy> copies,
                       const Shape& shape);

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

}  // namespace detent
