#pragma once

#include <cstdint>

namespace detent {

/// Bytes of this process that are in memory, those of mapped files among them.
struct ResidentMemory {
  int64_t now = 0;
  int64_t most = 0;  // since it began
};
ResidentMemory resident_memory();

/// From now on, vectors from 64 KiB on go back to the system at once. glibc would keep more of them the
/// larger those are that packing weights gives back, and what stays of a run would lie between them: as much
/// as half of what is in use.
void keep_large_vectors_out_of_heap();

}  // namespace detent
