#include "detent/datasets/image.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <string_view>

#include "detent/core/error.h"
#include "detent/files/file.h"

namespace detent {
namespace {

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// Or a PNG; Error on all else.
bool is_jpeg(std::span<const std::byte> bytes, const std::string& name) {
  if (begins_with(bytes, "\xff\xd8\xff")) return true;
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return false;
  fail("{}: {}", name, bytes.empty() ? "is empty" : "is neither a JPEG nor a PNG file");
}

}  // namespace

bool is_image_name(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

void check_image_size(int64_t height, int64_t width, const std::string& name) {
  if (height < 1 || width < 1 || height > kMostPixels / width) {
    fail("{}: an image of {} x {} pixels, at most {} pixels are supported", name, width, height, kMostPixels);
  }
}

RgbImage decode_image(std::span<const std::byte> bytes, const std::string& name) {
  return is_jpeg(bytes, name) ? decode_jpeg(bytes, name) : decode_png(bytes, name);
}

ImageSize decode_image_size(std::span<const std::byte> bytes, const std::string& name) {
  const ImageSize size = is_jpeg(bytes, name) ? jpeg_size(bytes, name) : png_size(bytes, name);
  check_image_size(size.height, size.width, name);
  return size;
}

ImageSize read_image_size(const std::filesystem::path& path) {
  const auto file = map_file(path);
  return decode_image_size(file->bytes(), path.string());
}

RgbImage read_image(const std::filesystem::path& path) {
  const auto file = map_file(path);
  return decode_image(file->bytes(), path.string());
}

}  // namespace detent
