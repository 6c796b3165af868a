#include "detent/datasets/image_resize.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"

namespace detent {
namespace {

RgbImage pattern(int64_t height, int64_t width) {
  RgbImage image{height, width, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t value = x * 7 + y * 13 + c * 29 + x * y % 31 * 3 + x * x * y % 57 * 5;
        image.pixels.push_back(static_cast<uint8_t>(value % 256));
      }
    }
  }
  return image;
}

/// The whole result.
RgbImage resized(const RgbImage& image, int64_t height, int64_t width) {
  const RgbView view = {image.pixels, image.height, image.width};
  return resize_bilinear(view, height, width, {0, 0, height, width});
}

/// One pixel of a line of `size`, which `pixel(x)` gives, scaled to `result_size`: the definition, with no
/// thought for speed.
template <class Pixel>
uint8_t reference_pixel(int64_t size, int64_t result_size, int64_t position, const Pixel& pixel) {
  const double scale = static_cast<double>(size) / static_cast<double>(result_size);
  const double width = std::max(scale, 1.0);
  const double center = (static_cast<double>(position) + 0.5) * scale;
  const auto weight = [&](int64_t x) {
    return std::max(0.0, 1 - std::abs((static_cast<double>(x) - center + 0.5) * (1 / width)));
  };
  double sum = 0;
  for (int64_t x = 0; x < size; ++x) sum += weight(x);
  int64_t value = int64_t{1} << 21;
  for (int64_t x = 0; x < size; ++x) {
    value += std::llround(std::floor(weight(x) / sum * (1 << 22) + 0.5)) * pixel(x);
  }
  return static_cast<uint8_t>(std::clamp<int64_t>(value >> 22, 0, 255));
}

RgbImage reference(const RgbImage& image, int64_t height, int64_t width) {
  const auto at = [](const RgbImage& from, int64_t y, int64_t x, int64_t c) {
    return from.pixels[static_cast<size_t>((y * from.width + x) * 3 + c)];
  };
  RgbImage rows{image.height, width, {}};
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t i = 0; i < width * 3; ++i) {
      rows.pixels.push_back(
          reference_pixel(image.width, width, i / 3, [&](int64_t x) { return at(image, y, x, i % 3); }));
    }
  }
  RgbImage result{height, width, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t i = 0; i < width * 3; ++i) {
      result.pixels.push_back(
          reference_pixel(image.height, height, y, [&](int64_t row) { return at(rows, row, i / 3, i % 3); }));
    }
  }
  return result;
}

TEST(ImageResize, IsTheSlowReference) {
  for (const auto& [height, width, to_height, to_width] : std::vector<std::array<int64_t, 4>>{
           {37, 53, 16, 16}, {20, 30, 41, 67}, {5, 64, 5, 13}, {64, 5, 13, 5}, {1, 1, 4, 3}, {9, 9, 1, 1}}) {
    const RgbImage image = pattern(height, width);
    EXPECT_EQ(resized(image, to_height, to_width).pixels, reference(image, to_height, to_width).pixels)
        << height << " x " << width << " to " << to_height << " x " << to_width;
  }
}

/// CRC-32 of what Pillow 9.4 gives: zlib.crc32(numpy.asarray(image.resize((w, h),
/// Image.BILINEAR)).tobytes()).
TEST(ImageResize, IsWhatPillowGives) {
  struct Case {
    int64_t height, width, to_height, to_width;
    uint32_t crc;
  };
  for (const Case& c : std::vector<Case>{{37, 53, 16, 16, 0x9e7066b1U},
                                         {37, 53, 37, 20, 0x9c1b60f3U},
                                         {37, 53, 11, 53, 0x2a2f7897U},
                                         {8, 5, 19, 23, 0x8fca2b33U},
                                         {300, 200, 64, 96, 0x75288e35U},
                                         {1, 1, 3, 4, 0xc539a51aU},
                                         {50, 60, 50, 60, 0xb24b0491U},
                                         {97, 1, 13, 1, 0x60e3301bU}}) {
    const RgbImage image = resized(pattern(c.height, c.width), c.to_height, c.to_width);
    ASSERT_EQ(image.pixels.size(), static_cast<size_t>(c.to_height * c.to_width * 3));
    EXPECT_EQ(crc32_z(0, image.pixels.data(), image.pixels.size()), c.crc)
        << c.height << " x " << c.width << " to " << c.to_height << " x " << c.to_width;
  }
}

/// The same pixels, however little of the result is asked for.
TEST(ImageResize, WindowsAreCutFromTheWhole) {
  for (const auto& [height, width, to_height, to_width] : std::vector<std::array<int64_t, 4>>{
           {37, 53, 16, 16}, {20, 30, 41, 67}, {5, 64, 5, 13}, {64, 5, 13, 5}, {9, 8, 9, 8}}) {
    const RgbImage image = pattern(height, width);
    const RgbImage whole = resized(image, to_height, to_width);
    const RgbView view = {image.pixels, height, width};
    for (const ImageWindow& window : {ImageWindow{0, 0, to_height, to_width}, ImageWindow{1, 2, 3, 2},
                                      ImageWindow{to_height - 4, to_width - 1, 4, 1}}) {
      const RgbImage part = resize_bilinear(view, to_height, to_width, window);
      ASSERT_EQ(part.pixels.size(), static_cast<size_t>(window.height * window.width * 3));
      for (int64_t y = 0; y < window.height; ++y) {
        const auto row = whole.pixels.begin() + ((window.top + y) * to_width + window.left) * 3;
        EXPECT_TRUE(std::equal(row, row + window.width * 3, part.pixels.begin() + y * window.width * 3));
      }
    }
    EXPECT_TRUE(resize_bilinear(view, to_height, to_width, {0, 1, 3, 0}).pixels.empty());
    EXPECT_THROW(resize_bilinear(view, to_height, to_width, {1, 0, to_height, 1}), CheckFailure);
  }
}

}  // namespace
}  // namespace detent
