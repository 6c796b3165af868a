#pragma once

#include <ATen/core/Tensor.h>

#include "detent/graph/connections.h"
#include "detent/graph/graph.h"

namespace detent {

/// linear, conv1d or conv2d as `Connections::sum` defines it: the same bits for every batch, number of
/// threads and processor. input [..., in] or [N, C, ...]; `bias` may be undefined.
at::Tensor ordered_sums(const Node& layer, const Connections& connections, const at::Tensor& input,
                        const at::Tensor& bias);

}  // namespace detent
