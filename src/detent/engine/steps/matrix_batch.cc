#include "detent/engine/steps/matrix_batch.h"

#include "detent/graph/operators.h"

namespace detent {
namespace {

/// The offset of each element of a view, in row-major order.
std::vector<int64_t> offsets_of(const StridedView& view) {
  std::vector<int64_t> offsets{view.offset};
  for (size_t d = 0; d < view.shape.size(); ++d) {
    std::vector<int64_t> next;
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < view.shape[d]; ++i) next.push_back(offset + i * view.strides[d]);
    }
    offsets = std::move(next);
  }
  return offsets;
}

}  // namespace

StridedView MatrixBatch::batch_of(const StridedView& view) {
  return {{view.shape.begin(), view.shape.end() - 2},
          {view.strides.begin(), view.strides.end() - 2},
          view.offset};
}

bool MatrixBatch::takes_each_of(const StridedView& left, const Shape& value) const {
  const int64_t matrices = element_count(batch_of(left).shape);
  return left.shape == value && left.is_contiguous() && left.offset == 0 && std::ssize(a) == matrices;
}

MatrixBatch::MatrixBatch(const StridedView& left, const StridedView& right) {
  const StridedView from_left = batch_of(left);
  const StridedView from_right = batch_of(right);
  packed = offsets_of(from_right);
  const Shape batch = broadcast_shapes(from_left.shape, from_right.shape);
  StridedView spread{batch, std::vector<int64_t>(batch.size(), 0), from_left.offset};
  for (size_t i = 1; i <= from_left.shape.size(); ++i) {
    if (from_left.shape[from_left.shape.size() - i] != 1)
      spread.strides[batch.size() - i] = from_left.strides[from_left.shape.size() - i];
  }
  a = offsets_of(spread);
  b = offsets_of(StridedView::broadcast(from_right.shape, batch));
}

}  // namespace detent
