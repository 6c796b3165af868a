#pragma once

#include "detent/graph/graph.h"

namespace detent {

/// Puts a layer_norm in the place of what exporters before opset 17 took one apart into: (x - mean(x)) /
/// sqrt( mean((x - mean(x))^2) + eps) * weight + bias over the last dimension. Where something else reads a
/// value inside, it stays as it is.
void recognize_layer_norm(Graph& graph);

}  // namespace detent
