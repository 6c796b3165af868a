#pragma once

#include <cstdint>

namespace detent {

/// Bytes of this process that are in memory, those of mapped files among them.
struct ResidentMemory {
  int64_t now = 0;
  int64_t most = 0;  // since it began
};
ResidentMemory resident_memory();

}  // namespace detent
