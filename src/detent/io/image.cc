#include "detent/io/image.h"

#include <cstring>
#include <string_view>

#include "detent/core/error.h"
#include "detent/io/file.h"
#include "detent/io/image_codecs.h"

namespace detent {
namespace {

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

void check_image_size(int64_t height, int64_t width, const std::string& name) {
  if (height < 1 || width < 1 || height > kMostPixels / width) {
    fail("{}: an image of {} x {} pixels, at most {} pixels are supported", name, width, height, kMostPixels);
  }
}

RgbImage decode_image(std::span<const std::byte> bytes, const std::string& name) {
  if (begins_with(bytes, "\xff\xd8\xff")) return decode_jpeg(bytes, name);
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return decode_png(bytes, name);
  fail("{}: {}", name, bytes.empty() ? "is empty" : "is neither a JPEG nor a PNG file");
}

RgbImage read_image(const std::filesystem::path& path) {
  const auto file = map_file(path);
  return decode_image(file->bytes(), path.string());
}

}  // namespace detent
