#pragma once

namespace detent {

/// From now on, libtorch takes the memory of tensors from a BlockCache: a step of a training finds the blocks
/// of the step before, and what lies idle is bounded by what was in use at once and 32 MiB. Calls
/// after the first do nothing.
void use_block_cache_for_tensors();

/// Where tensors are not computed for a while: returns what lies idle to the system.
void give_back_idle_tensor_memory();

}  // namespace detent
