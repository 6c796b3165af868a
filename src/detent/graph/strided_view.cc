#include "detent/graph/element_movement.h"

#include <algorithm>
#include <limits>

#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {

StridedView StridedView::of(const Shape& shape) {
  StridedView view{shape, std::vector<int64_t>(shape.size(), 1)};
  for (size_t i = shape.size(); i-- > 1;) view.strides[i - 1] = view.strides[i] * shape[i];
  return view;
}

StridedView StridedView::broadcast(const Shape& from, const Shape& to) {
  const StridedView whole = of(from);
  StridedView view{to, std::vector<int64_t>(to.size(), 0)};
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t at = to.size() - 1 - i;
    const size_t source = from.size() - 1 - i;
    if (from[source] == to[at]) view.strides[at] = whole.strides[source];
  }
  return view;
}

bool StridedView::is_contiguous() const {
  const std::vector<int64_t> adjacent = of(shape).strides;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && strides[d] != adjacent[d]) return false;
  }
  return true;
}

bool StridedView::keeps_order() const {
  int64_t last = std::numeric_limits<int64_t>::max();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (strides[d] > last) return false;
    last = strides[d];
  }
  return true;
}

/// A step of so many elements is so many along each dimension of `inner`, the first as many as there can be.
/// That is right for all elements at once where no sum of steps leaves a dimension.
std::optional<StridedView> StridedView::over(const StridedView& inner) const {
  if (inner.is_contiguous()) {
    StridedView moved = *this;
    moved.offset += inner.offset;
    return moved;
  }
  const std::vector<int64_t> adjacent = of(inner.shape).strides;
  std::vector<int64_t> farthest(inner.shape.size(), 0);  // along each dimension of `inner`
  const auto moved_by = [&](int64_t elements, int64_t times) {
    int64_t by = 0;
    for (size_t d = 0; d < adjacent.size(); ++d) {
      const int64_t along = inner.shape[d] == 1 ? 0 : elements / adjacent[d];
      elements -= along * adjacent[d];
      farthest[d] += along * times;
      by += along * inner.strides[d];
    }
    return by;
  };
  if (std::ranges::any_of(strides, [](int64_t stride) { return stride < 0; })) return std::nullopt;
  StridedView moved{shape, {}, inner.offset + moved_by(offset, 1)};
  for (size_t d = 0; d < shape.size(); ++d)
    moved.strides.push_back(shape[d] == 1 ? 0 : moved_by(strides[d], shape[d] - 1));
  for (size_t d = 0; d < farthest.size(); ++d) {
    if (farthest[d] >= inner.shape[d]) return std::nullopt;
  }
  return moved;
}

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

int64_t border_source(int64_t position, int64_t size, std::string_view mode) {
  if (position >= 0 && position < size) return position;
  if (mode == "constant") return -1;
  if (size == 0) fail("mode {} has nothing to repeat in a dimension of size 0", mode);
  if (mode == "edge") return position < 0 ? 0 : size - 1;
  if (mode == "wrap") return (position % size + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1);
  const int64_t place = (position % period + period) % period;
  return place < size ? place : period - place;
}

}  // namespace detent
