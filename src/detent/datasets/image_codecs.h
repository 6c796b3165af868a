#pragma once

#include "detent/datasets/image.h"

namespace detent {

constexpr int64_t kMostPixels = int64_t{1} << 27;

/// Throws Error on a size that is not positive or has more than kMostPixels.
void check_image_size(int64_t height, int64_t width, const std::string& name);

RgbImage decode_jpeg(std::span<const std::byte> bytes, const std::string& name);
RgbImage decode_png(std::span<const std::byte> bytes, const std::string& name);
ImageSize jpeg_size(std::span<const std::byte> bytes, const std::string& name);
ImageSize png_size(std::span<const std::byte> bytes, const std::string& name);

}  // namespace detent
