#include "detent/datasets/image_resize.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr int64_t kChannels = 3;
// A sum of products of 8-bit pixels, with a weight of at most 1, fits 32 bits.
constexpr int kWeightBits = 22;

/// Which pixels of a line make one pixel of the result, and with which weights.
struct Taps {
  explicit Taps(int64_t first, std::vector<int32_t> all = {}) : begin(first), weights(std::move(all)) {}
  int64_t begin;
  std::vector<int32_t> weights;  // units of 2^-kWeightBits
};

/// Some of the pixels [0, size) of a line.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

/// The triangle filter for the pixels `wanted` of a result of `result_size`, its weights made to add up to 1
/// (Pillow, src/libImaging/Resample.c, precompute_coeffs and normalize_coeffs_8bpc).
std::vector<Taps> triangle_filter(int64_t size, int64_t result_size, const Range& wanted) {
  const double scale = static_cast<double>(size) / static_cast<double>(result_size);
  const double support = std::max(scale, 1.0);
  std::vector<Taps> filter;
  std::vector<double> weights;
  for (int64_t i = wanted.begin; i < wanted.end; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto end = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), size);
    double sum = 0;
    weights.clear();
    for (int64_t x = begin; x < end; ++x) {
      const double distance = (static_cast<double>(x) - center + 0.5) * (1.0 / support);
      weights.push_back(std::max(1.0 - std::abs(distance), 0.0));
      sum += weights.back();
    }
    Taps& taps = filter.emplace_back(begin);
    for (const double weight : weights)
      taps.weights.push_back(static_cast<int32_t>(0.5 + weight / sum * (1 << kWeightBits)));
  }
  return filter;
}

/// Taps of a line that keeps its size: each pixel is one of the line.
std::vector<Taps> no_filter(const Range& wanted) {
  std::vector<Taps> filter;
  for (int64_t i = wanted.begin; i < wanted.end; ++i)
    filter.emplace_back(i, std::vector<int32_t>{1 << kWeightBits});
  return filter;
}

std::vector<Taps> filter_for(int64_t size, int64_t result_size, const Range& wanted) {
  return size == result_size ? no_filter(wanted) : triangle_filter(size, result_size, wanted);
}

/// The pixels of the line that the filter reads.
Range read_by(const std::vector<Taps>& filter) {
  Range range{filter.front().begin, 0};
  for (const Taps& taps : filter) {
    range.begin = std::min(range.begin, taps.begin);
    range.end = std::max(range.end, taps.begin + static_cast<int64_t>(taps.weights.size()));
  }
  return range;
}

uint8_t to_pixel(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

/// The rows `rows` of the image, each filtered.
RgbImage resize_rows(const RgbView& image, const Range& rows, const std::vector<Taps>& filter) {
  const auto width = static_cast<int64_t>(filter.size());
  RgbImage result{rows.size(), width,
                  std::vector<uint8_t>(static_cast<size_t>(rows.size() * width * kChannels))};
  uint8_t* target = result.pixels.data();
  for (int64_t y = rows.begin; y < rows.end; ++y) {
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

/// Columns of an image whose first row is row `first_row` to the filter. Whole rows at a time: the sums of a
/// row of the result stay in the nearest cache.
RgbImage resize_columns(const RgbImage& image, int64_t first_row, const std::vector<Taps>& filter) {
  const auto row_bytes = static_cast<size_t>(image.width * kChannels);
  RgbImage result{static_cast<int64_t>(filter.size()), image.width,
                  std::vector<uint8_t>(filter.size() * row_bytes)};
  std::vector<int32_t> sums(row_bytes);
  uint8_t* target = result.pixels.data();
  for (const Taps& taps : filter) {
    std::ranges::fill(sums, 1 << (kWeightBits - 1));
    const uint8_t* row = image.pixels.data() + static_cast<size_t>(taps.begin - first_row) * row_bytes;
    for (const int32_t weight : taps.weights) {
      for (size_t i = 0; i < row_bytes; ++i) sums[i] += row[i] * weight;
      row += row_bytes;
    }
    target = std::ranges::transform(sums, target, to_pixel).out;
  }
  return result;
}

}  // namespace

RgbImage resize_bilinear(const RgbView& image, int64_t height, int64_t width, const ImageWindow& window) {
  const bool fits = window.top >= 0 && window.left >= 0 && window.height >= 0 && window.width >= 0 &&
                    window.top + window.height <= height && window.left + window.width <= width;
  DETENT_CHECK(fits && image.height >= 1 && image.width >= 1,
               "{} x {} at {}, {} of {} x {} resized to {} x {}", window.height, window.width, window.top,
               window.left, image.height, image.width, height, width);
  if (window.height == 0 || window.width == 0) return {window.height, window.width, {}};
  const std::vector<Taps> down = filter_for(image.height, height, {window.top, window.top + window.height});
  const std::vector<Taps> across = filter_for(image.width, width, {window.left, window.left + window.width});
  const Range rows = read_by(down);
  RgbImage scaled = resize_rows(image, rows, across);
  return height == image.height ? scaled : resize_columns(scaled, rows.begin, down);
}

}  // namespace detent
