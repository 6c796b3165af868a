#pragma once

#include "detent/graph/graph.h"

namespace detent {

/// Puts one node in the place of those that an exporter took it apart into: layer normalization,
/// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias over the last dimension, and gelu,
/// 0.5 x (1 + erf(x / sqrt(2))), whatever the order of its factors. What nobody reads afterwards stays;
/// values that others read are not touched.
void fuse_patterns(Graph& graph);

}  // namespace detent
