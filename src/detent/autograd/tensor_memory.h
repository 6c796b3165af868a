#pragma once

#include <cstddef>

namespace detent {

/// A step of training mnist_cnn has 14 MiB in use at once, but blocks of more than 30 in all sizes.
constexpr size_t kSpareForTraining = size_t{32} << 20;

/// From now on, libtorch takes the memory of tensors from a BlockCache: a step of a training finds the blocks
/// of the step before, and what lies idle is bounded by what was in use at once and `spare` bytes. Calls
/// after the first do nothing.
void use_block_cache_for_tensors(size_t spare = kSpareForTraining);

/// Where tensors are not computed for a while: returns what lies idle to the system.
void give_back_idle_tensor_memory();

}  // namespace detent
