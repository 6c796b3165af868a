#pragma once

#include <optional>

#include "detent/core/tensor.h"
#include "detent/graph/connections.h"
#include "detent/graph/graph.h"

namespace detent {

/// The result of a linear layer, conv1d or conv2d: `Connections::sum` of each output at each position,
/// whatever the size of the batch and the number of threads. No gradients.
Tensor sparse_sums(const Node& layer, const Connections& connections, const Tensor& values,
                   const std::optional<Tensor>& bias);

}  // namespace detent
