#include "detent/graph/broadcast.h"

#include "detent/graph/operators.h"
#include "detent/graph/strided_view.h"
#include "detent/graph/element_movement.h"

namespace detent {

Tensor broadcast(const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape || tensor.numel() == 1) return tensor;
  return gathered(tensor, StridedView::broadcast(tensor.shape(), shape));
}

BroadcastPair::BroadcastPair(const Tensor& left, const Tensor& right)
    : shape(broadcast_shapes(left.shape(), right.shape())) {
  a = broadcast(left, shape);
  b = broadcast(right, shape);
  a_step = a.numel() == 1 ? 0 : 1;
  b_step = b.numel() == 1 ? 0 : 1;
}

}  // namespace detent
