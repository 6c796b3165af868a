#include "detent/datasets/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <zlib.h>

#include <random>

#include "detent/core/error.h"
#include "detent/datasets/image_for_test.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

RgbImage decode(const std::string& bytes) { return decode_image(std::as_bytes(std::span(bytes)), "a.png"); }

TEST(Image, PngOfEveryKind) {
  const std::vector<png_color> palette = {{10, 20, 30}, {40, 50, 60}, {70, 80, 90}};
  // Two pixels each: (1, 2, 3) and (250, 251, 252), or grey levels, or entries of the palette.
  const auto pixels = [](const PngLayout& layout, const std::vector<uint8_t>& row) {
    const RgbImage image = decode(png_bytes(layout, {row}));
    EXPECT_EQ(image.height, 1);
    EXPECT_EQ(image.width, 2);
    return image.pixels;
  };
  PngLayout layout{.width = 2};
  EXPECT_THAT(pixels(layout, {1, 2, 3, 250, 251, 252}), ElementsAre(1, 2, 3, 250, 251, 252));
  layout.bit_depth = 16;
  EXPECT_THAT(pixels(layout, {1, 255, 2, 0, 3, 9, 250, 1, 251, 2, 252, 3}),
              ElementsAre(1, 2, 3, 250, 251, 252));
  layout = {.width = 2, .color_type = PNG_COLOR_TYPE_RGB_ALPHA};
  EXPECT_THAT(pixels(layout, {1, 2, 3, 0, 250, 251, 252, 255}), ElementsAre(1, 2, 3, 250, 251, 252));
  layout.color_type = PNG_COLOR_TYPE_GRAY_ALPHA;
  EXPECT_THAT(pixels(layout, {7, 0, 9, 128}), ElementsAre(7, 7, 7, 9, 9, 9));
  layout.color_type = PNG_COLOR_TYPE_GRAY;
  EXPECT_THAT(pixels(layout, {7, 255}), ElementsAre(7, 7, 7, 255, 255, 255));
  layout.bit_depth = 16;
  EXPECT_THAT(pixels(layout, {7, 200, 255, 3}), ElementsAre(7, 7, 7, 255, 255, 255));
  layout.bit_depth = 1;
  EXPECT_THAT(pixels(layout, {0b01000000}), ElementsAre(0, 0, 0, 255, 255, 255));
  layout.bit_depth = 4;
  EXPECT_THAT(pixels(layout, {0x3f}), ElementsAre(51, 51, 51, 255, 255, 255));
  layout = {.width = 2, .bit_depth = 2, .color_type = PNG_COLOR_TYPE_PALETTE, .palette = palette};
  EXPECT_THAT(pixels(layout, {0b10010000}), ElementsAre(70, 80, 90, 40, 50, 60));
  layout.palette_alpha = {0, 0, 255};
  EXPECT_THAT(pixels(layout, {0b10010000}), ElementsAre(70, 80, 90, 40, 50, 60));
}

TEST(Image, InterlacedPngIsThatWithout) {
  std::vector<std::vector<uint8_t>> rows(11, std::vector<uint8_t>(39));
  for (size_t y = 0; y < rows.size(); ++y) {
    for (size_t i = 0; i < rows[y].size(); ++i) rows[y][i] = static_cast<uint8_t>(y * 50 + i * 3);
  }
  const PngLayout plain{.width = 13, .height = 11};
  PngLayout interlaced = plain;
  interlaced.interlaced = true;
  EXPECT_EQ(decode(png_bytes(interlaced, rows)).pixels, decode(png_bytes(plain, rows)).pixels);
}

TEST(Image, JpegOfEveryColorSpace) {
  const auto near = [](int value) { return AllOf(testing::Ge(value - 2), testing::Le(value + 2)); };
  const RgbImage rgb = decode(jpeg_bytes(20, 9, JCS_RGB, {200, 30, 90}));
  EXPECT_EQ(rgb.height, 9);
  EXPECT_EQ(rgb.width, 20);
  ASSERT_EQ(rgb.pixels.size(), 20U * 9 * 3);
  EXPECT_THAT(std::vector<int>(rgb.pixels.begin(), rgb.pixels.begin() + 3),
              ElementsAre(near(200), near(30), near(90)));
  EXPECT_THAT(decode(jpeg_bytes(5, 5, JCS_GRAYSCALE, {77})).pixels, Each(77));
  // Adobe's values: 255 is no ink. Half of black leaves 128; cyan absorbs all red, magenta half the green.
  const RgbImage cmyk = decode(jpeg_bytes(8, 8, JCS_CMYK, {0, 128, 255, 128}));
  EXPECT_THAT(std::vector<int>(cmyk.pixels.begin(), cmyk.pixels.begin() + 3),
              ElementsAre(near(0), near(64), near(128)));
}

TEST(Image, SizesAreInTheHeader) {
  const auto size_of = [](const std::string& bytes) {
    return decode_image_size(std::as_bytes(std::span(bytes)), "a.png");
  };
  EXPECT_EQ(size_of(jpeg_bytes(100, 20, JCS_GRAYSCALE, {200})), (ImageSize{20, 100}));
  const std::string png =
      png_bytes({.width = 3, .height = 2}, {std::vector<uint8_t>(9), std::vector<uint8_t>(9)});
  EXPECT_EQ(size_of(png), (ImageSize{2, 3}));
  EXPECT_THAT([&] { size_of(png.substr(0, 20)); }, ThrowsMessage<Error>(HasSubstr("damaged PNG file")));
  EXPECT_THAT([&] { size_of("GIF89a"); }, ThrowsMessage<Error>(HasSubstr("neither a JPEG nor a PNG")));
}

TEST(Image, MistakesAreNamed) {
  const TemporaryPath path("cat.jpg");
  const auto message = [&](const std::string& bytes, const char* text) {
    path.overwrite(bytes);
    EXPECT_THAT([&] { read_image(path.get()); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path.get().string()), HasSubstr(text))));
  };
  message("", "is empty");
  message("GIF89a", "is neither a JPEG nor a PNG file");
  const std::string jpeg = jpeg_bytes(40, 40, JCS_RGB, {1, 200, 3});
  message(jpeg.substr(0, jpeg.size() - 2), "damaged JPEG file: Premature end of JPEG file");
  message(jpeg.substr(0, 100), "damaged JPEG file");
  message("\xff\xd8\xff", "damaged JPEG file");
  const std::string png = png_bytes({.width = 2}, {{1, 2, 3, 4, 5, 6}});
  message(png.substr(0, png.size() - 1), "damaged PNG file: it is cut off");
  std::string changed = png;
  changed[20] = 'x';
  message(changed, "damaged PNG file: IHDR: CRC error");
  const std::string large = png_bytes({.width = 1U << 16, .height = 1}, {std::vector<uint8_t>(3U << 16)});
  changed = large;
  changed[21] = 1;  // 2^16 + 1 rows; the CRC is no longer right, and is made so
  const uint32_t crc = __builtin_bswap32(
      static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(changed.data()) + 12, 17)));
  changed.replace(29, 4, reinterpret_cast<const char*>(&crc), 4);
  message(changed, "an image of 65536 x 65537 pixels, at most");
  EXPECT_THROW(read_image("missing.png"), Error);
}

TEST(Image, SurvivesMutations) {
  std::mt19937 random(4);
  std::vector<std::vector<uint8_t>> rows(20, std::vector<uint8_t>(60));
  for (auto& row : rows) {
    for (uint8_t& value : row) value = static_cast<uint8_t>(random());
  }
  const std::vector<std::string> files = {png_bytes({.width = 20, .height = 20}, rows),
                                          jpeg_bytes(50, 40, JCS_RGB, {1, 200, 3}),
                                          jpeg_bytes(50, 40, JCS_CMYK, {1, 200, 3, 5})};
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = files[static_cast<size_t>(i) % files.size()];
    if (i % 7 == 0) text.resize(random() % text.size());
    for (auto changes = random() % 4; changes > 0 && !text.empty(); --changes) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    try {
      decode(text);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace detent
