#include "detent/core/resident_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace detent {

ResidentMemory resident_memory() {
  constexpr int64_t kKibi = 1024;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  ResidentMemory memory;
  memory.most = int64_t{usage.ru_maxrss} * kKibi;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) memory.now = std::stoll(line.substr(6)) * kKibi;
  }
  // Where there is no such file, as much as ever.
  if (memory.now == 0) memory.now = memory.most;
  memory.most = std::max(memory.most, memory.now);
  return memory;
}

void keep_vectors_out_of_heap([[maybe_unused]] int bytes) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, bytes);
#endif
}

}  // namespace detent
