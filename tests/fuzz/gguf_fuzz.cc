#include <cmath>

#include "detent/core/error.h"
#include "detent/checkpoints/gguf/gguf_file.h"

#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const detent::MemoryFile file(data, size);
  try {
    const detent::GgufFile gguf = detent::read_gguf(file.path());
    for (const detent::GgufEntry& entry : gguf.metadata.entries()) {
      detent::gguf_value(entry, 4);
      try {
        gguf.metadata.texts(entry.key);
      } catch (const detent::Error&) {
      }
      try {
        gguf.metadata.numbers(entry.key);
      } catch (const detent::Error&) {
      }
    }
    for (const detent::GgufTensor& tensor : gguf.tensors) detent::gguf_elements(tensor).clone();
  } catch (const detent::Error&) {
  }
  return 0;
}
