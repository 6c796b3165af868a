#pragma once

#include "detent/graph/graph.h"

namespace detent {

/// Makes one gelu of the nodes that exporters write for it before opset 20: products of x, 1/2 and
/// 1 + erf(x / sqrt 2), or 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)). What nothing reads any more stays.
void recognize_gelu(Graph& graph);

}  // namespace detent
