#pragma once

#include <ATen/core/Tensor.h>

#include "detent/graph/graph.h"

namespace detent {

/// Whether max_pool2d takes it: float32, [N, C, H, W] in the order of its dimensions.
bool is_plain_image(const at::Tensor& x);

/// What at::max_pool2d computes of it for the node, to the last bit, at many times its speed; without
/// gradients.
at::Tensor max_pool2d(const Node& node, const at::Tensor& x);

}  // namespace detent
