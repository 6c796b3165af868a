#include "detent/workflows/memory_announcement.h"

#include <algorithm>

#include "detent/core/log.h"
#include "detent/core/process_resources.h"

namespace detent {
namespace {

/// Rounded up.
int64_t megabytes(int64_t bytes) { return (bytes + 999'999) / 1'000'000; }

}  // namespace

int64_t announce_memory(const Decoder& decoder, const DecoderLoad& load) {
  const DecoderMemory memory = decoder.memory(load);
  const ResidentMemory resident = resident_memory();
  // Values of many sizes come and go: half as much again lies between them in the heap.
  const int64_t values = memory.buffers + memory.buffers / 2;
  const int64_t most = std::max(resident.most, resident.now + memory.cache + values);
  log_info("memory: at most {} MB (weights {}, cache {} for {} tokens, values {}; loading took {})",
           megabytes(most), megabytes(memory.weights), megabytes(memory.cache), load.sequences * load.tokens,
           megabytes(values), megabytes(resident.most));
  return most;
}

}  // namespace detent
