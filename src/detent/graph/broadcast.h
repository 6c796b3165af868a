#pragma once

#include "detent/core/tensor.h"

namespace detent {

/// Two operands of a function of pairs of elements, repeated to the shape of its result (numpy's rule); one
/// of a single element stays as it is, with a step of 0.
struct BroadcastPair {
  Tensor a;
  Tensor b;
  Shape shape;
  int64_t a_step;
  int64_t b_step;

  BroadcastPair(const Tensor& left, const Tensor& right);
};

/// Repeated to `shape`; a single element stays one.
Tensor broadcast(const Tensor& tensor, const Shape& shape);

}  // namespace detent
