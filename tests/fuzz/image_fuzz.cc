#include "detent/core/error.h"
#include "detent/datasets/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // What a small file may claim takes seconds to fill.
  constexpr size_t kLargest = 1 << 16;
  if (size > kLargest) return 0;
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const detent::ImageSize told = detent::decode_image_size(bytes, "fuzz");
    const detent::RgbImage image = detent::decode_image(bytes, "fuzz");
    const detent::ImageSize decoded = {image.height, image.width};
    DETENT_CHECK(told == decoded, "{} x {}", told.width, told.height);
    DETENT_CHECK(image.pixels.size() == static_cast<size_t>(image.height * image.width * 3), "{} x {}",
                 image.width, image.height);
  } catch (const detent::Error&) {
  }
  return 0;
}
