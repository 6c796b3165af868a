#pragma once

#include <cstdint>

#include "detent/core/tensor.h"
#include "detent/integer/node_form.h"
#include "detent/language/cached_tensor.h"

namespace detent {

// Rows [1, heads, rows, depth] of each head times the head of a cache, whose first `tokens` count. What a
// codec keeps is widened a page at a time.

/// In float32, as float32/sums.h states.
Tensor cache_product(const Tensor& a, const CachedTensor& cache, int64_t tokens);
/// int32 sums over codes, those of code_product. Throws Error naming the node where they could exceed 32
/// bits.
Tensor cache_code_product(const ProductForm& form, const Node& node, const Tensor& a,
                          const CachedTensor& cache, int64_t tokens);

}  // namespace detent
