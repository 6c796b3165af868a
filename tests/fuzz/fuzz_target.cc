// Hands libFuzzer the function DETENT_FUZZ_TARGET of one of the files of targets.
#include <cstddef>
#include <cstdint>

namespace detent::fuzz {

int DETENT_FUZZ_TARGET(const uint8_t* data, size_t size);

}  // namespace detent::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return detent::fuzz::DETENT_FUZZ_TARGET(data, size);
}
