#pragma once

#include "detent/core/tensor.h"

namespace detent {

/// A tensor of float32 whose elements are yet to be set. Memory that such tensors give back is kept for later
/// ones (core/block_cache.h).
Tensor result_tensor(const Shape& shape);

}  // namespace detent
