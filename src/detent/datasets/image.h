#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace detent {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;

  bool operator==(const ImageSize&) const = default;
};

/// An image in memory, 8 bits a channel.
struct RgbImage {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;  // [height, width, 3]
};

/// Whether it is called like one: .jpg, .jpeg or .png, in any case.
bool is_image_name(const std::filesystem::path& path);

/// Reads a JPEG or PNG file, recognised by its first bytes, to the same pixels as Pillow's
/// `Image.open(path).convert("RGB")`: grey levels and palettes become RGB, transparency is dropped, of 16
/// bits the upper 8 are kept (grey ones too, which Pillow would clip), CMYK (inverted where Adobe's marker
/// says so) is mixed down without a colour profile. Orientation tags are not applied. Throws Error naming the
/// file on other files, damaged or truncated ones, and on more than 2^27 pixels.
RgbImage read_image(const std::filesystem::path& path);
/// The same of bytes; `name` begins the messages.
RgbImage decode_image(std::span<const std::byte> bytes, const std::string& name);

/// Size from the header of such a file, without reading pixels.
ImageSize read_image_size(const std::filesystem::path& path);
ImageSize decode_image_size(std::span<const std::byte> bytes, const std::string& name);

constexpr int64_t kMostPixels = int64_t{1} << 27;

/// Throws Error on a size that is not positive or has more than kMostPixels.
void check_image_size(int64_t height, int64_t width, const std::string& name);

RgbImage decode_jpeg(std::span<const std::byte> bytes, const std::string& name);
RgbImage decode_png(std::span<const std::byte> bytes, const std::string& name);
ImageSize jpeg_size(std::span<const std::byte> bytes, const std::string& name);
ImageSize png_size(std::span<const std::byte> bytes, const std::string& name);

}  // namespace detent
