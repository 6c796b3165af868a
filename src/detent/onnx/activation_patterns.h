#pragma once

#include "detent/graph/graph.h"

namespace detent {

/// Makes one node of those that exporters write for an activation function: gelu of products of x, 1/2 and
/// 1 + erf(x / sqrt 2), or 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)); silu of x sigmoid(x); hardswish of
/// x hardsigmoid(x). What nothing reads any more stays.
void recognize_activations(Graph& graph);

}  // namespace detent
