#pragma once

#include "detent/io/image.h"

namespace detent {

/// Scales to `height` x `width`, both at least 1, with the triangle filter ("bilinear"), which is widened
/// where the image shrinks, so that every pixel counts (antialias): bit for bit what Pillow's `resize((width,
/// height), Image.BILINEAR)` gives, and so torchvision's transforms on its images. Rows first, then columns,
/// each rounded to 8 bits, in fixed-point weights with 22 fraction bits.
RgbImage resize_bilinear(const RgbImage& image, int64_t height, int64_t width);

/// Scales so that the shorter side has `size` pixels, the longer one size * longer / shorter, rounded down:
/// torchvision's `Resize(size)`.
RgbImage resize_shorter_side(const RgbImage& image, int64_t size);

/// The middle `height` x `width` pixels: torchvision's `CenterCrop`, which rounds half an odd margin to even.
/// Both at most the size of the image.
RgbImage center_crop(const RgbImage& image, int64_t height, int64_t width);

}  // namespace detent
