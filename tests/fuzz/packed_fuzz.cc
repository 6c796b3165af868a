#include "detent/core/error.h"
#include "detent/graph_files/packed_tensors.h"

#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const detent::MemoryFile file(data, size);
  try {
    const detent::SafetensorsFile tensors = detent::read_safetensors(file.path());
    for (const detent::StoredTensor& tensor : detent::unpack_tensors(tensors, "fuzz")) {
      detent::stored_values(tensor, detent::Scratch("/tmp"));
    }
  } catch (const detent::Error&) {
  }
  return 0;
}
