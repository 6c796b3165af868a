#pragma once

#include <ATen/core/Tensor.h>

namespace detent {

/// at::linear of float32 on the calling thread, where each output is one sum in the order of the inputs, the
/// bias added last. BLAS orders sums by processor, batch size and number of threads; this gives the same bits
/// for all of them, wherever the processor has fused multiply-add. inputs [..., in], weight [out, in], bias
/// [out] or undefined; the result is [..., out].
at::Tensor ordered_linear(const at::Tensor& inputs, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace detent
