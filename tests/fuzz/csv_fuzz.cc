// Any text as a table of numbers.
#include <cmath>

#include "detent/core/error.h"
#include "detent/files/array_files.h"

#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const detent::MemoryFile file(data, size);
  try {
    const detent::Tensor table = detent::read_csv(file.path());
    for (const float value : table.values<float>()) DETENT_CHECK(std::isfinite(value), "{}", value);
  } catch (const detent::Error&) {
  }
  return 0;
}
