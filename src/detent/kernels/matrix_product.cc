#include <algorithm>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/strided_view.h"
#include "detent/kernels/product.h"
#include "detent/kernels/sums.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

/// Rows of the right matrix that are added at once: their part under one tile stays in the first-level cache.
constexpr int64_t kMatrixDepth = 128;
/// Rows of the left matrix that a thread takes at once.
constexpr int64_t kMatrixRows = 64;

Shape leading(const Tensor& matrices) { return {matrices.shape().begin(), matrices.shape().end() - 2}; }

/// [leading, ...]
Tensor as_batch(const Tensor& matrices, const Shape& batch) {
  Shape shape = batch;
  shape.insert(shape.end(), {matrices.dim(-2), matrices.dim(-1)});
  if (shape == matrices.shape()) return matrices;
  return gathered(matrices, StridedView::broadcast(matrices.shape(), shape));
}

/// Columns filled up with zeros.
Tensor padded_columns(const Tensor& matrices, int64_t columns) {
  Shape shape = matrices.shape();
  if (shape.back() == columns) return matrices;
  const int64_t given = shape.back();
  shape.back() = columns;
  Tensor padded = result_tensor(shape);
  const float* from = matrices.values<float>().data();
  float* to = padded.values<float>().data();
  for (int64_t row = 0; row < element_count({shape.begin(), shape.end() - 1}); ++row) {
    std::copy_n(from + row * given, given, to + row * columns);
    std::fill_n(to + row * columns + given, columns - given, 0.0F);
  }
  return padded;
}

Tensor without_padding(const Tensor& products, const Shape& shape) {
  if (products.dim(-1) == shape.back()) return products.reshaped(shape);
  Tensor result = result_tensor(shape);
  const float* from = products.values<float>().data();
  float* to = result.values<float>().data();
  for (int64_t row = 0; row < element_count({shape.begin(), shape.end() - 1}); ++row)
    std::copy_n(from + row * products.dim(-1), shape.back(), to + row * shape.back());
  return result;
}

struct Batch {
  int64_t rows;
  int64_t depth;
  int64_t columns;
  const float* left;
  const float* right;
  float* result;
};

void compute_panel(const Batch& b, int64_t index, int64_t row) {
  const int64_t rows = std::min(kMatrixRows, b.rows - row);
  std::fill_n(b.result + (index * b.rows + row) * b.columns, rows * b.columns, 0.0F);
  for (int64_t k = 0; k < b.depth; k += kMatrixDepth) {
    add_product({.a = b.left + (index * b.rows + row) * b.depth + k,
                 .a_row = b.depth,
                 .a_column = 1,
                 .b = b.right + (index * b.depth + k) * b.columns,
                 .b_stride = b.columns,
                 .c = b.result + (index * b.rows + row) * b.columns,
                 .c_stride = b.columns,
                 .rows = rows,
                 .depth = std::min(kMatrixDepth, b.depth - k),
                 .column_begin = 0,
                 .column_end = b.columns});
  }
}

Tensor batched_product(const Tensor& a, const Tensor& b, const Shape& batch) {
  const int64_t columns =
      (b.dim(-1) + FloatProduct::kPadding - 1) / FloatProduct::kPadding * FloatProduct::kPadding;
  const Tensor left = as_batch(a, batch);
  const Tensor right = padded_columns(as_batch(b, batch), columns);
  Shape shape = batch;
  shape.insert(shape.end(), {a.dim(-2), columns});
  Tensor products = result_tensor(shape);
  const Batch of = {a.dim(-2),
                    a.dim(-1),
                    columns,
                    left.values<float>().data(),
                    right.values<float>().data(),
                    products.values<float>().data()};
  const int64_t blocks = (of.rows + kMatrixRows - 1) / kMatrixRows;
  parallel_for(element_count(batch) * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) compute_panel(of, i / blocks, i % blocks * kMatrixRows);
  });
  shape.back() = b.dim(-1);
  return without_padding(products, shape);
}

/// Products of so many rows and columns of `depth` elements; parts of both become columns of vectors.
void multiply_rows(const float* rows, const float* columns, int64_t count, int64_t depth, float* results) {
  constexpr int64_t kPart = 64;
  std::vector<float> left(static_cast<size_t>(kPart * std::min(kPart, depth)));
  std::vector<float> right(left.size());
  for (int64_t row = 0; row < count; row += kPart) {
    const int64_t together = std::min(kPart, count - row);
    float* const sums = results + row;
    std::fill_n(sums, together, 0.0F);
    for (int64_t first = 0; first < depth; first += kPart) {
      const int64_t part = std::min(kPart, depth - first);
      const int64_t at = row * depth + first;
      channels_to_front(rows + at, depth, part, together, left.data(), kPart);
      channels_to_front(columns + at, depth, part, together, right.data(), kPart);
      for (int64_t k = 0; k < part; ++k)
        add_elementwise(left.data() + k * kPart, right.data() + k * kPart, sums, together);
    }
  }
}

/// Matrices of one row by those of one column.
Tensor batched_dots(const Tensor& a, const Tensor& b, const Shape& batch) {
  constexpr int64_t kGrain = 16384;
  const int64_t depth = a.dim(-1);
  const Tensor left = as_batch(a, batch);
  const Tensor right = as_batch(b, batch);
  Shape shape = batch;
  shape.insert(shape.end(), {1, 1});
  Tensor products = result_tensor(shape);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, depth));
  parallel_for(products.numel(), grain, [&](int64_t begin, int64_t end) {
    multiply_rows(left.values<float>().data() + begin * depth, right.values<float>().data() + begin * depth,
                  end - begin, depth, products.values<float>().data() + begin);
  });
  return products;
}

Shape without_dimension(Shape shape, int64_t from_end) {
  shape.erase(shape.end() - from_end);
  return shape;
}

}  // namespace

Tensor matrix_product(const Tensor& a, const Tensor& b) {
  if (a.rank() == 1 && b.rank() > 0) {
    const Tensor product = matrix_product(a.reshaped({1, a.dim(0)}), b);
    return product.reshaped(without_dimension(product.shape(), b.rank() == 1 ? 1 : 2));
  }
  if (b.rank() == 1 && a.rank() > 0) {
    const Tensor product = matrix_product(a, b.reshaped({b.dim(0), 1}));
    return product.reshaped(without_dimension(product.shape(), 1));
  }
  if (a.rank() == 0 || b.rank() == 0 || a.dim(-1) != b.dim(-2)) {
    fail("matrix product of tensors of shapes {} and {}", shape_text(a.shape()), shape_text(b.shape()));
  }
  if (b.rank() == 2 && a.rank() > 2) {
    Shape shape = a.shape();
    shape.back() = b.dim(1);
    const int64_t rows = element_count({a.shape().begin(), a.shape().end() - 1});
    return matrix_product(a.reshaped({rows, a.dim(-1)}), b).reshaped(shape);
  }
  const Shape batch = broadcast_shapes(leading(a), leading(b));
  const bool are_vectors = a.dim(-2) == 1 && b.dim(-1) == 1 && element_count(batch) > 1;
  return are_vectors ? batched_dots(a, b, batch) : batched_product(a, b, batch);
}

}  // namespace detent
