#include <algorithm>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/kernels/product.h"
#include "detent/kernels/sums.h"
#include "detent/kernels/tensor_layout.h"

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

struct Layer {
  int64_t out;
  int64_t in;
  const float* weight;
  const float* bias;  // nullptr: none
};

/// The outputs of at most kRows rows.
void compute_rows(const Layer& layer, const float* inputs, int64_t rows, float* results) {
  const int64_t padded =
      (rows + FloatProduct::kPadding - 1) / FloatProduct::kPadding * FloatProduct::kPadding;
  std::vector<float> panel(static_cast<size_t>(kRows * std::min(kDepth, layer.in)));
  std::vector<float> sums(static_cast<size_t>(layer.out * padded));
  for (int64_t k = 0; k < layer.in; k += kDepth) {
    const int64_t depth = std::min(kDepth, layer.in - k);
    transpose(inputs + k, layer.in, rows, depth, panel.data());
    add_product({.a = layer.weight + k,
                 .a_row = layer.in,
                 .a_column = 1,
                 .b = panel.data(),
                 .b_stride = kRows,
                 .c = sums.data(),
                 .c_stride = padded,
                 .rows = layer.out,
                 .depth = depth,
                 .column_begin = 0,
                 .column_end = padded});
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t j = 0; j < layer.out; ++j) {
      const float sum = sums[static_cast<size_t>(j * padded + row)];
      results[row * layer.out + j] = layer.bias == nullptr ? sum : sum + layer.bias[j];
    }
  }
}

}  // namespace

Tensor linear_sums(const Tensor& inputs, const Tensor& weight, const std::optional<Tensor>& bias) {
  const Layer layer = {weight.dim(0), weight.dim(1), weight.values<float>().data(),
                       bias ? bias->values<float>().data() : nullptr};
  if (inputs.rank() == 0 || inputs.dim(-1) != layer.in)
    fail("linear of {} inputs: got a tensor of shape {}", layer.in, shape_text(inputs.shape()));
  Shape shape = inputs.shape();
  shape.back() = layer.out;
  Tensor result = result_tensor(shape);
  const int64_t count = element_count({shape.begin(), shape.end() - 1});
  const float* const from = inputs.values<float>().data();
  float* const to = result.values<float>().data();
  parallel_for(count, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += kRows)
      compute_rows(layer, from + row * layer.in, std::min(kRows, end - row), to + row * layer.out);
  });
  return result;
}

}  // namespace detent
