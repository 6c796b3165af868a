#pragma once

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/integer/node_form.h"

namespace detent {

/// The sums of a linear layer or convolution, int32: from `codes` (int32, of the form's input type) to the
/// shape of the node's result, before requantization. Plain loops in the order of the definition.
Tensor code_sums(const SumForm& form, const Node& node, const Tensor& codes);

}  // namespace detent
