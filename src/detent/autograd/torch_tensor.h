#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/core/tensor.h"

namespace detent {

/// The same memory as a libtorch tensor, which keeps it alive.
at::Tensor to_torch(const Tensor& tensor);
std::vector<at::Tensor> to_torch(std::span<const Tensor> tensors);
/// The same memory (a copy when `tensor` is not contiguous). Throws Error on a dtype detent does not have.
Tensor from_torch(const at::Tensor& tensor);
/// Throws Error on a dtype detent does not have.
DType dtype_of(const at::Tensor& tensor);
at::ScalarType scalar_type(DType dtype);

}  // namespace detent
