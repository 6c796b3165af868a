#include "detent/core/error.h"
#include "detent/files/zip.h"

#include "memory_file.h"

/// Every byte that an entry claims must be readable, or inflate to what it claims.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const detent::MemoryFile file(data, size);
  try {
    const detent::ZipReader zip(file.path());
    for (const detent::ZipReader::Entry& entry : zip.entries()) {
      DETENT_CHECK(zip.find(entry.name) == &entry, "entry {}", entry.name);
      try {
        zip.unpack(entry);
      } catch (const detent::Error&) {
      }
    }
  } catch (const detent::Error&) {
  }
  return 0;
}
