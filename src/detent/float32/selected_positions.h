#pragma once

#include <cstdint>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// The positions of dimension `dim` in this order, each as often as it is listed; of a negative one the only
/// element of `otherwise`, which has x's element type.
Tensor selected_positions(const Tensor& x, size_t dim, const std::vector<int64_t>& positions,
                          const Tensor& otherwise);

}  // namespace detent
