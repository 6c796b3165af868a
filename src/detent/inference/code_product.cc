#include "detent/inference/reference_step.h"

#include <algorithm>

#include "detent/core/parallel.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

/// In the leading dimensions `batch`.
Tensor in_batch(const Tensor& matrices, Shape batch) {
  batch.insert(batch.end(), matrices.shape().end() - 2, matrices.shape().end());
  return gathered(matrices, StridedView::broadcast(matrices.shape(), batch));
}

}  // namespace

Tensor code_product(const ProductForm& form, const Node& node, const Tensor& a, const Tensor& b) {
  const Shape batch =
      broadcast_shapes({a.shape().begin(), a.shape().end() - 2}, {b.shape().begin(), b.shape().end() - 2});
  const int64_t rows = a.dim(-2);
  const int64_t depth = a.dim(-1);
  const int64_t columns = b.dim(-1);
  form.check_depth(node, depth);
  const Tensor left = in_batch(a, batch);
  const Tensor right = in_batch(b, batch);
  Shape shape = batch;
  shape.insert(shape.end(), {rows, columns});
  Tensor sums(DType::kInt32, shape);
  const int32_t* const x = left.values<int32_t>().data();
  const int32_t* const y = right.values<int32_t>().data();
  int32_t* const to = sums.values<int32_t>().data();
  parallel_for(element_count(batch) * rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int32_t* const sum = to + row * columns;
      std::fill(sum, sum + columns, 0);
      for (int64_t k = 0; k < depth; ++k) {
        const int32_t steps = x[row * depth + k] - form.a.zero_point;
        const int32_t* const terms = y + (row / rows * depth + k) * columns;
        for (int64_t c = 0; c < columns; ++c) sum[c] += steps * (terms[c] - form.b.zero_point);
      }
    }
  });
  return sums;
}

}  // namespace detent
