#include "detent/core/error.h"
#include "detent/files/safetensors.h"

#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const detent::MemoryFile file(data, size);
  try {
    // Every byte that a tensor claims must be readable.
    for (const auto& [name, tensor] : detent::read_safetensors(file.path()).tensors) tensor.clone();
  } catch (const detent::Error&) {
  }
  return 0;
}
