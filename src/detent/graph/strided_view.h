#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// Where the elements of a tensor lie in the memory of another: element (i, j, ...) at offset + i *
/// strides[0] + j * strides[1] + ..., counted in elements.
struct StridedView {
  Shape shape;
  std::vector<int64_t> strides;
  int64_t offset = 0;

  /// A tensor of this shape itself, row-major.
  static StridedView of(const Shape& shape);
  /// A tensor of shape `from` repeated to `to`, by numpy's rule.
  static StridedView broadcast(const Shape& from, const Shape& to);

  /// Whether its elements are adjacent, in row-major order.
  bool is_contiguous() const;
  /// Whether no dimension is stepped through faster than one after it.
  bool keeps_order() const;
  /// This view of the elements that `inner` has, in their row-major order, as a view of the memory that
  /// `inner` views; nullopt where no strides say it.
  std::optional<StridedView> over(const StridedView& inner) const;
};

/// The elements of an input that lie in `from` go to `to` in the result; both have one shape.
struct StridedCopy {
  size_t input = 0;
  StridedView from;
  StridedView to;
};

}  // namespace detent
