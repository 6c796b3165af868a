#pragma once

#include <malloc.h>

namespace detent {

/// Vectors from this size on go back to the system as soon as they are freed. glibc would keep more of them
/// the larger those are that were freed, and what stays would lie between them.
inline void keep_vectors_out_of_heap([[maybe_unused]] int bytes) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, bytes);
#endif
}

}  // namespace detent
