#pragma once

#include <string>

#include "detent/graph/graph.h"

namespace detent {

/// Which tensors of weights a quantized network keeps in float32 and what share of its weights' bytes they
/// take, a line; "" where none has two dimensions or more.
std::string float_weights_text(const Graph& graph);

}  // namespace detent
