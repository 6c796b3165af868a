#pragma once

#include <cstdint>

namespace detent {

/// Bytes of this process that are in memory, those of mapped files among them.
struct ResidentMemory {
  int64_t now = 0;
  int64_t most = 0;  // since it began
};
ResidentMemory resident_memory();

/// Vectors from `bytes` on go back to the system as soon as they are freed. glibc would keep more of them the
/// larger those are that were freed, and what stays would lie between them. For the whole process: a choice
/// of programs, not of libraries.
void keep_vectors_out_of_heap(int bytes);

}  // namespace detent
