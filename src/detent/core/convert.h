#pragma once

#include "detent/core/tensor.h"

namespace detent {

/// The float32 nearest to each element (ties to even), whatever the dtype; the same tensor when it is
/// float32.
Tensor to_float32(const Tensor& tensor);

}  // namespace detent
