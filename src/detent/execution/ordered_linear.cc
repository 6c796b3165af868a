#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/core/product.h"
#include "detent/execution/ordered_sums.h"

namespace detent {
namespace {

/// Rows and inputs of a panel, which stays in the second-level cache while all outputs are computed from it.
constexpr int64_t kRows = 64;
constexpr int64_t kDepth = 256;

/// A panel of the inputs, transposed: vectors of the product then run along rows, and weights need no
/// packing.
void transpose(const float* from, int64_t stride, int64_t rows, int64_t depth, float* panel) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < depth; ++k) panel[k * kRows + row] = from[row * stride + k];
  }
}

}  // namespace

bool sums_in_order(const Evaluation& evaluation) {
  return evaluation.in_order && evaluation.tensor(0).scalar_type() == at::kFloat;
}

at::Tensor ordered_linear(const at::Tensor& inputs, const at::Tensor& weight, const at::Tensor& bias) {
  const int64_t out = weight.size(0);
  const int64_t in = weight.size(1);
  TORCH_CHECK(inputs.dim() > 0 && inputs.size(-1) == in, "linear of ", in, " inputs: got a tensor of shape ",
              inputs.sizes());
  const at::Tensor rows = inputs.reshape({-1, in}).contiguous();
  const at::Tensor weights = weight.contiguous();
  const int64_t count = rows.size(0);
  const int64_t padded = (count + Product::kPadding - 1) / Product::kPadding * Product::kPadding;
  const at::Tensor transposed = at::zeros({out, padded}, inputs.options());
  parallel_for(count, kRows, [&](int64_t row, int64_t end) {
    std::vector<float> panel(static_cast<size_t>(kRows * kDepth));
    for (int64_t k = 0; k < in; k += kDepth) {
      const int64_t depth = std::min(kDepth, in - k);
      transpose(rows.data_ptr<float>() + row * in + k, in, end - row, depth, panel.data());
      add_product({.a = weights.data_ptr<float>() + k,
                   .a_row = in,
                   .a_column = 1,
                   .b = panel.data(),
                   .b_stride = kRows,
                   .c = transposed.data_ptr<float>() + row,
                   .c_stride = padded,
                   .rows = out,
                   .depth = depth,
                   .column_begin = 0,
                   .column_end = std::min(kRows, padded - row)});
    }
  });
  at::Tensor result = transposed.narrow(1, 0, count).t().contiguous();
  if (bias.defined()) result += bias;
  std::vector<int64_t> shape = inputs.sizes().vec();
  shape.back() = out;
  return result.view(shape);
}

}  // namespace detent
