#include "detent/core/error.h"
#include "detent/files/array_files.h"

#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const detent::MemoryFile file(data, size);
  try {
    detent::read_npy(file.path()).clone();
  } catch (const detent::Error&) {
  }
  return 0;
}
