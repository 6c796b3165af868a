#pragma once

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/integer/node_form.h"

namespace detent {

/// The sums of a linear layer or convolution, int32: from `codes` (int32, of the form's input type) to the
/// shape of the node's result, before requantization. Convolutions are products of matrices of integers,
/// which add up to the same in every order; in an accumulator of the node's that may not hold all sums, they
/// come in the order of graph/accumulator.h.
Tensor code_sums(const SumForm& form, const Node& node, const Tensor& codes);

}  // namespace detent
