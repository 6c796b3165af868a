#pragma once

#include <cstdint>
#include <span>

#include "detent/datasets/image.h"

namespace detent {

/// View of pixels [height, width, 3].
struct RgbView {
  std::span<const uint8_t> pixels;
  int64_t height = 0;
  int64_t width = 0;
};

/// A rectangle of an image.
struct ImageWindow {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

/// Scales to `height` x `width`, both at least 1, with the triangle filter ("bilinear"), which is widened
/// where the image shrinks, so that every pixel counts (antialias): bit for bit what Pillow's `resize((width,
/// height), Image.BILINEAR)` gives, and so torchvision's transforms on its images. Rows first, then columns,
/// each rounded to 8 bits, in fixed-point weights with 22 fraction bits. The pixels of the result that lie in
/// `window`, in memory and time for these: an image of 1 x 100,000 pixels, scaled to a shorter side of 256,
/// would have 6.5e9.
RgbImage resize_bilinear(const RgbView& image, int64_t height, int64_t width, const ImageWindow& window);

}  // namespace detent
