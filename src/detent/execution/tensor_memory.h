#pragma once

namespace detent {

/// From now on, libtorch takes the memory of tensors from malloc and aligns it itself. Its own way,
/// posix_memalign, asks glibc for more bytes than it keeps: what a tensor leaves behind is too small for the
/// next of its size, and running a network breaks the heap into pieces of which half lie idle. Calls after the
/// first do nothing.
void use_malloc_for_tensors();

}  // namespace detent
