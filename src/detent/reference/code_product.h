#pragma once

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/integer/node_form.h"

namespace detent {

/// The sums of a matrix product of int32 codes, [..., m, k] x [..., k, n], before requantization: int32.
Tensor code_product(const ProductForm& form, const Node& node, const Tensor& a, const Tensor& b);

}  // namespace detent
