#include "detent/core/error.h"
#include "detent/io/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // What a small file may claim takes seconds to fill.
  constexpr size_t kLargest = 1 << 16;
  if (size > kLargest) return 0;
  try {
    const detent::RgbImage image = detent::decode_image(std::as_bytes(std::span(data, size)), "fuzz");
    DETENT_CHECK(image.pixels.size() == static_cast<size_t>(image.height * image.width * 3), "{} x {}",
                 image.width, image.height);
  } catch (const detent::Error&) {
  }
  return 0;
}
