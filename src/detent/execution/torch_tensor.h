#pragma once

#include <ATen/core/Tensor.h>

#include "detent/core/tensor.h"

namespace detent {

/// The same memory as a libtorch tensor, which keeps it alive.
at::Tensor to_torch(const Tensor& tensor);
/// The same memory (a copy when `tensor` is not contiguous). Throws Error on a dtype detent does not have.
Tensor from_torch(const at::Tensor& tensor);

}  // namespace detent
