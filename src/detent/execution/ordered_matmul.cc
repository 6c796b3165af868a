#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/core/product.h"
#include "detent/execution/ordered_sums.h"

namespace detent {
namespace {

/// Rows of the right matrix that are added at once: their part under one tile stays in the first-level cache.
constexpr int64_t kDepth = 128;
/// Rows of the left matrix that a thread takes at once.
constexpr int64_t kRows = 64;

at::Tensor as_batch(const at::Tensor& matrices, const std::vector<int64_t>& leading) {
  std::vector<int64_t> shape = leading;
  shape.insert(shape.end(), {matrices.size(-2), matrices.size(-1)});
  const int64_t batch = std::accumulate(leading.begin(), leading.end(), int64_t{1}, std::multiplies());
  return matrices.expand(shape).reshape({batch, matrices.size(-2), matrices.size(-1)}).contiguous();
}

std::vector<int64_t> broadcast_leading(const at::Tensor& a, const at::Tensor& b) {
  const int64_t rank = std::max(a.dim(), b.dim()) - 2;
  std::vector<int64_t> leading(static_cast<size_t>(rank), 1);
  for (const at::Tensor* matrices : {&a, &b}) {
    const int64_t missing = rank - (matrices->dim() - 2);
    for (int64_t d = missing; d < rank; ++d) {
      int64_t& size = leading[static_cast<size_t>(d)];
      if (matrices->size(d - missing) != 1) size = matrices->size(d - missing);
    }
  }
  return leading;
}

}  // namespace

at::Tensor ordered_matmul(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() == 1) return ordered_matmul(a.unsqueeze(0), b).squeeze(b.dim() == 1 ? 0 : -2);
  if (b.dim() == 1) return ordered_matmul(a, b.unsqueeze(1)).squeeze(-1);
  TORCH_CHECK(a.dim() > 0 && b.dim() > 0 && a.size(-1) == b.size(-2), "matrix product of tensors of shapes ",
              a.sizes(), " and ", b.sizes());
  if (b.dim() == 2 && a.dim() > 2) {
    std::vector<int64_t> shape = a.sizes().vec();
    shape.back() = b.size(1);
    return ordered_matmul(a.flatten(0, -2), b).view(shape);
  }
  const std::vector<int64_t> leading = broadcast_leading(a, b);
  const at::Tensor left = as_batch(a, leading);
  const int64_t columns = b.size(-1);
  const int64_t padded = (columns + Product::kPadding - 1) / Product::kPadding * Product::kPadding;
  at::Tensor right = as_batch(b, leading);
  if (padded != columns) right = at::constant_pad_nd(right, {0, padded - columns}, 0);
  const int64_t rows = left.size(1);
  const int64_t depth = left.size(2);
  const at::Tensor result = at::zeros({left.size(0), rows, padded}, left.options());
  const int64_t blocks = (rows + kRows - 1) / kRows;
  parallel_for(left.size(0) * blocks, 1, [&](int64_t index, int64_t /*end*/) {
    const int64_t batch = index / blocks;
    const int64_t row = index % blocks * kRows;
    for (int64_t k = 0; k < depth; k += kDepth) {
      add_product({.a = left.data_ptr<float>() + (batch * rows + row) * depth + k,
                   .a_row = depth,
                   .a_column = 1,
                   .b = right.data_ptr<float>() + (batch * depth + k) * padded,
                   .b_stride = padded,
                   .c = result.data_ptr<float>() + (batch * rows + row) * padded,
                   .c_stride = padded,
                   .rows = std::min(kRows, rows - row),
                   .depth = std::min(kDepth, depth - k),
                   .column_begin = 0,
                   .column_end = padded});
    }
  });
  std::vector<int64_t> shape = leading;
  shape.insert(shape.end(), {rows, columns});
  return result.narrow(2, 0, columns).reshape(shape);
}

}  // namespace detent
