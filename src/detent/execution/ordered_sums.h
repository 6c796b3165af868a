#pragma once

#include <ATen/core/Tensor.h>

#include "detent/execution/evaluators/evaluator.h"

namespace detent {

// Layers in float32 whose results do not depend on the processor, the size of the batch or the number of
// threads: each output is one sum, in the order that is stated, of products that are added with one rounding
// (wherever the processor has fused multiply-add). BLAS and oneDNN order sums by all of these. No gradients.

/// Whether these are to compute what the node asks for: in inference where that must be reproducible.
bool sums_in_order(const Evaluation& evaluation);

/// at::linear: the inputs in their order, the bias last. inputs [..., in], weight [out, in], bias [out] or
/// undefined; the result is [..., out].
at::Tensor ordered_linear(const at::Tensor& inputs, const at::Tensor& weight, const at::Tensor& bias);

/// at::matmul of two tensors [..., m, k] and [..., k, n], whose leading dimensions broadcast: k in its order.
/// A tensor of rank 1 is a row on the left and a column on the right, as in at::matmul.
at::Tensor ordered_matmul(const at::Tensor& a, const at::Tensor& b);

struct ConvolutionWindow {
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  int64_t groups = 1;
};

/// at::conv1d, conv2d, conv3d: the bias, then the elements of the window in the order of the weight, zeros of
/// the padding included. inputs [N, C, ...], weight [out, C / groups, ...], bias [out] or undefined.
at::Tensor ordered_convolution(const at::Tensor& inputs, const at::Tensor& weight, const at::Tensor& bias,
                               const ConvolutionWindow& window);

/// at::conv_transpose of 1 to 3 dimensions: ordered_convolution of the inputs with zeros between them. weight
/// [C, out / groups, ...].
at::Tensor ordered_transposed_convolution(const at::Tensor& inputs, const at::Tensor& weight,
                                          const at::Tensor& bias, const ConvolutionWindow& window,
                                          at::IntArrayRef output_padding);

}  // namespace detent
