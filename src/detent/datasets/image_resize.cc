#include "detent/datasets/image_resize.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr int64_t kChannels = 3;
// A sum of products of 8-bit pixels, with a weight of at most 1, fits 32 bits.
constexpr int kWeightBits = 22;

/// Which pixels of a line make one pixel of the result, and with which weights.
struct Taps {
  int64_t begin = 0;
  std::vector<int32_t> weights;  // units of 2^-kWeightBits
};

/// The triangle filter, its weights made to add up to 1 (Pillow, src/libImaging/Resample.c, precompute_coeffs
/// and normalize_coeffs_8bpc).
std::vector<Taps> triangle_filter(int64_t size, int64_t result_size) {
  const double scale = static_cast<double>(size) / static_cast<double>(result_size);
  const double support = std::max(scale, 1.0);
  std::vector<Taps> filter(static_cast<size_t>(result_size));
  for (size_t i = 0; i < filter.size(); ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto end = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), size);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t x = begin; x < end; ++x) {
      const double distance = (static_cast<double>(x) - center + 0.5) * (1.0 / support);
      weights.push_back(std::max(1.0 - std::abs(distance), 0.0));
      sum += weights.back();
    }
    filter[i].begin = begin;
    for (const double weight : weights)
      filter[i].weights.push_back(static_cast<int32_t>(0.5 + weight / sum * (1 << kWeightBits)));
  }
  return filter;
}

uint8_t to_pixel(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

RgbImage resize_rows(const RgbImage& image, int64_t width) {
  RgbImage result{image.height, width,
                  std::vector<uint8_t>(static_cast<size_t>(image.height * width * kChannels))};
  const std::vector<Taps> filter = triangle_filter(image.width, width);
  uint8_t* target = result.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* row = image.pixels.data() + y * image.width * kChannels;
    for (const Taps& taps : filter) {
      int32_t sums[kChannels] = {1 << (kWeightBits - 1), 1 << (kWeightBits - 1), 1 << (kWeightBits - 1)};
      const uint8_t* pixel = row + taps.begin * kChannels;
      for (const int32_t weight : taps.weights) {
        for (int64_t channel = 0; channel < kChannels; ++channel) sums[channel] += pixel[channel] * weight;
        pixel += kChannels;
      }
      for (const int32_t sum : sums) *target++ = to_pixel(sum);
    }
  }
  return result;
}

/// Whole rows at a time: the sums of a row of the result stay in the nearest cache.
RgbImage resize_columns(const RgbImage& image, int64_t height) {
  const auto row_bytes = static_cast<size_t>(image.width * kChannels);
  RgbImage result{height, image.width, std::vector<uint8_t>(static_cast<size_t>(height) * row_bytes)};
  std::vector<int32_t> sums(row_bytes);
  uint8_t* target = result.pixels.data();
  for (const Taps& taps : triangle_filter(image.height, height)) {
    std::ranges::fill(sums, 1 << (kWeightBits - 1));
    const uint8_t* row = image.pixels.data() + static_cast<size_t>(taps.begin) * row_bytes;
    for (const int32_t weight : taps.weights) {
      for (size_t i = 0; i < row_bytes; ++i) sums[i] += row[i] * weight;
      row += row_bytes;
    }
    target = std::ranges::transform(sums, target, to_pixel).out;
  }
  return result;
}

}  // namespace

RgbImage resize_bilinear(const RgbImage& image, int64_t height, int64_t width) {
  DETENT_CHECK(height >= 1 && width >= 1, "resized to {} x {}", height, width);
  if (height == image.height && width == image.width) return image;
  if (height == image.height) return resize_rows(image, width);
  if (width == image.width) return resize_columns(image, height);
  return resize_columns(resize_rows(image, width), height);
}

RgbImage resize_shorter_side(const RgbImage& image, int64_t size) {
  if (image.height <= image.width) return resize_bilinear(image, size, size * image.width / image.height);
  return resize_bilinear(image, size * image.height / image.width, size);
}

RgbImage center_crop(const RgbImage& image, int64_t height, int64_t width) {
  DETENT_CHECK(height <= image.height && width <= image.width, "{} x {} of {} x {}", height, width,
               image.height, image.width);
  const auto margin = [](int64_t size, int64_t wanted) {
    return std::llrint(static_cast<double>(size - wanted) / 2);  // half to even
  };
  const int64_t top = margin(image.height, height);
  const int64_t left = margin(image.width, width);
  RgbImage result{height, width, {}};
  result.pixels.reserve(static_cast<size_t>(height * width * kChannels));
  for (int64_t y = top; y < top + height; ++y) {
    const auto row = image.pixels.begin() + (y * image.width + left) * kChannels;
    result.pixels.insert(result.pixels.end(), row, row + width * kChannels);
  }
  return result;
}

}  // namespace detent
