#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

// Layers in float32 whose results do not depend on the processor, the size of the batch or the number of
// threads: each output is one sum, in the order that is stated, of products that are added with one rounding.
// BLAS and oneDNN order sums by all of these. Throw Error where shapes do not fit.

/// The inputs in their order, the bias last. inputs [..., in], weight [out, in], bias [out]; the result is
/// [..., out].
Tensor linear_sums(const Tensor& inputs, const Tensor& weight, const std::optional<Tensor>& bias);

/// The product of two tensors [..., m, k] and [..., k, n], whose leading dimensions broadcast: k in its
/// order. A tensor of rank 1 is a row on the left and a column on the right, without that dimension in the
/// result.
Tensor matrix_product(const Tensor& a, const Tensor& b);

struct ConvolutionWindow {
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  int64_t groups = 1;
};

/// In 1 to 3 dimensions: the bias, then the elements of the window in the order of the weight, zeros of the
/// padding included. inputs [N, C, ...], weight [out, C / groups, ...], bias [out].
Tensor convolution_sums(const Tensor& inputs, const Tensor& weight, const std::optional<Tensor>& bias,
                        const ConvolutionWindow& window);

/// convolution_sums of the inputs with zeros between them. weight [C, out / groups, ...].
Tensor transposed_convolution_sums(const Tensor& inputs, const Tensor& weight,
                                   const std::optional<Tensor>& bias, const ConvolutionWindow& window,
                                   const std::vector<int64_t>& output_padding);

}  // namespace detent
