#pragma once

#include <cstdint>
#include <vector>

#include "detent/engine/kernels/kernel_set.h"
#include "detent/inference/node_form.h"

namespace detent {

/// Whether the node's operands and results are bytes.
bool pairs_bytes(const PairForm& form);
/// Whether a kernel computes sums, differences or products as they are; all else is looked up.
bool has_pair_kernel(const PairForm& form);
/// A sum or a difference.
ByteAddition byte_addition(const PairForm& form);
QuickAddition quick_addition(const ByteAddition& addition);
ByteProduct byte_product(const PairForm& form);
/// The result's byte for each byte of `a` and of `b`: 256 for each of `a`.
std::vector<uint8_t> pair_table(const PairForm& form);

}  // namespace detent
