#include "detent/core/error.h"
#include "detent/datasets/sample_readers.h"

/// Any bytes give a tensor of the announced size or an Error, in bounded time and memory.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kLimit = 1 << 20;
  try {
    const detent::Tensor tensor = detent::parse_idx(std::as_bytes(std::span(data, size)), "fuzz", kLimit);
    DETENT_CHECK(tensor.byte_size() <= kLimit, "{} bytes", tensor.byte_size());
  } catch (const detent::Error&) {
  }
  return 0;
}
