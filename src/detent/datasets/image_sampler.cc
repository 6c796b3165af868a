#include "detent/datasets/image_dataset.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/datasets/image_resize.h"
#include "detent/datasets/sample_random.h"

namespace detent {
namespace {

/// One number a channel; a single one stands for all.
std::vector<float> per_channel(const std::optional<std::vector<double>>& given, const std::vector<float>& own,
                               const char* key) {
  if (!given) return own;
  if (given->size() != 1 && given->size() != own.size()) {
    fail("{}: got {} numbers, expected one, or {}: one a channel", key, given->size(), own.size());
  }
  std::vector<float> result;
  for (size_t i = 0; i < own.size(); ++i)
    result.push_back(static_cast<float>((*given)[given->size() == 1 ? 0 : i]));
  return result;
}

/// The longer side is rounded down, as by torchvision's `Resize(size)`.
ImageSize scaled_size(ImageSize size, std::optional<int64_t> shorter_side) {
  if (!shorter_side) return size;
  const int64_t shorter = std::min(size.height, size.width);
  return {*shorter_side * size.height / shorter, *shorter_side * size.width / shorter};
}

void check_crops(const ImageTransforms& transforms, ImageSize size) {
  if (transforms.center_crop.value_or(1) > std::min(size.height, size.width)) {
    fail("center_crop: got {}, but the images are {}x{}", *transforms.center_crop, size.height, size.width);
  }
  if (transforms.crop_padding > 0 && !transforms.random_crop) {
    fail("crop_padding: got {} without random_crop", transforms.crop_padding);
  }
  if (transforms.random_crop && transforms.crop_padding == 0 && !transforms.center_crop) {
    fail(
        "random_crop: there is one place only to cut {}x{} from images of that size: give crop_padding or "
        "center_crop",
        size.height, size.width);
  }
}

/// Half of it; half an odd margin is rounded to even, as torchvision's CenterCrop does.
int64_t half_margin(int64_t margin) {
  const int64_t half = margin / 2;
  return margin % 2 == 1 && half % 2 == 1 ? half + 1 : half;
}

/// A single channel three times.
RgbImage rgb_image(const ImageView& image, size_t channels) {
  RgbImage result{image.height, image.width, {}};
  result.pixels.reserve(static_cast<size_t>(image.height * image.width * 3));
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      for (size_t channel = 0; channel < 3; ++channel) {
        const int64_t plane = channels == 1 ? 0 : static_cast<int64_t>(channel) * image.channel_stride;
        const int64_t offset = plane + y * image.row_stride + x * image.column_stride;
        result.pixels.push_back(image.pixels[static_cast<size_t>(offset)]);
      }
    }
  }
  return result;
}

}  // namespace

ChannelLevels normalised_levels(float mean, float std, float highest) {
  ChannelLevels levels{};
  for (size_t level = 0; level < levels.size(); ++level) {
    const float scaled = static_cast<float>(level) / highest;
    const float centred = scaled - mean;
    levels[level] = centred / std;
  }
  return levels;
}

ImageView view_of(const RgbImage& image) {
  return {.pixels = image.pixels,
          .height = image.height,
          .width = image.width,
          .channel_stride = 1,
          .row_stride = 3 * image.width,
          .column_stride = 3};
}

ImageSampler::ImageSampler(std::optional<ImageSize> size, const Normalisation& own,
                           const DatasetOptions& options, bool takes_samples_as_they_are)
    : transforms_(options.transforms),
      seed_(static_cast<uint64_t>(options.seed)),
      takes_samples_as_they_are_(takes_samples_as_they_are) {
  DETENT_CHECK(size || transforms_.center_crop, "samples of unknown size");
  DETENT_CHECK(own.mean.size() == 1 || own.mean.size() == 3, "{} channels", own.mean.size());
  const int64_t crop = transforms_.center_crop.value_or(0);
  // Images of any size have at least the shorter side that they are scaled to.
  const int64_t shorter = transforms_.resize.value_or(crop);
  const ImageSize seen = size ? scaled_size(*size, transforms_.resize) : ImageSize{shorter, shorter};
  check_crops(transforms_, seen);
  height_ = transforms_.center_crop.value_or(seen.height);
  width_ = transforms_.center_crop.value_or(seen.width);
  const std::vector<float> mean = per_channel(transforms_.image_mean, own.mean, "image_mean");
  const std::vector<float> std = per_channel(transforms_.image_std, own.std, "image_std");
  for (size_t i = 0; i < mean.size(); ++i) levels_.push_back(normalised_levels(mean[i], std[i], own.highest));
}

ImageSampler::Window ImageSampler::middle_of(ImageSize size) const {
  return {half_margin(size.height - height_), half_margin(size.width - width_), false};
}

ImageSize ImageSampler::size_to_cut(const ImageView& image, bool randomly) const {
  const ImageSize own = {image.height, image.width};
  const bool is_sample = own == ImageSize{height_, width_};
  if (takes_samples_as_they_are_ && is_sample && !randomly) return own;
  const ImageSize size = scaled_size(own, transforms_.resize);
  if (size.height < height_ || size.width < width_) {
    fail("an image of {}x{} is too small to cut {}x{} from it", size.height, size.width, height_, width_);
  }
  return size;
}

void ImageSampler::sample(const ImageView& image, std::span<float> target) const {
  const ImageSize size = size_to_cut(image, false);
  cut(image, size, middle_of(size), target);
}

void ImageSampler::training_sample(const ImageView& image, int64_t index, int64_t epoch,
                                   std::span<float> target) const {
  const ImageSize size = size_to_cut(image, transforms_.random_crop);
  SampleRandom random(seed_, epoch, index);
  const int64_t padding = transforms_.crop_padding;
  const int64_t top = random.below(size.height + 2 * padding - height_ + 1) - padding;
  const int64_t left = random.below(size.width + 2 * padding - width_ + 1) - padding;
  Window window = middle_of(size);
  if (transforms_.random_crop) window = {top, left, false};
  window.mirrored = random.uniform() < transforms_.horizontal_flip;
  cut(image, size, window, target);
}

void ImageSampler::cut(const ImageView& image, ImageSize size, const Window& window,
                       std::span<float> target) const {
  if (size == ImageSize{image.height, image.width}) return copy_window(image, window, target);
  const int64_t top = std::clamp<int64_t>(window.top, 0, size.height);
  const int64_t left = std::clamp<int64_t>(window.left, 0, size.width);
  const ImageWindow inside = {top, left, std::clamp(window.top + height_, top, size.height) - top,
                              std::clamp(window.left + width_, left, size.width) - left};
  const bool is_rgb =
      image.channel_stride == 1 && image.column_stride == 3 && image.row_stride == 3 * image.width;
  const RgbImage copy = is_rgb ? RgbImage() : rgb_image(image, levels_.size());
  const RgbView pixels = {is_rgb ? image.pixels : std::span<const uint8_t>(copy.pixels), image.height,
                          image.width};
  const RgbImage scaled = resize_bilinear(pixels, size.height, size.width, inside);
  copy_window(view_of(scaled), {window.top - top, window.left - left, window.mirrored}, target);
}

Shape ImageSampler::sample_shape() const {
  const auto channels = static_cast<int64_t>(levels_.size());
  if (transforms_.layout == ImageLayout::kNhwc) return {height_, width_, channels};
  return {channels, height_, width_};
}

void ImageSampler::copy_window(const ImageView& image, const Window& window, std::span<float> target) const {
  const size_t channels = levels_.size();
  const auto plane = static_cast<size_t>(height_ * width_);
  const bool reversed = transforms_.channel_order == ChannelOrder::kBgr;
  const auto channel_at = [&](size_t place) { return reversed ? channels - 1 - place : place; };
  if (transforms_.layout == ImageLayout::kNchw) {
    for (size_t place = 0; place < channels; ++place)
      copy_plane(image, window, channel_at(place), target.data() + place * plane);
    return;
  }
  std::vector<float> values(plane);
  for (size_t place = 0; place < channels; ++place) {
    copy_plane(image, window, channel_at(place), values.data());
    for (size_t i = 0; i < plane; ++i) target[i * channels + place] = values[i];
  }
}

void ImageSampler::copy_plane(const ImageView& image, const Window& window, size_t channel,
                              float* row) const {
  // Columns of the sample that lie in the image, before it is mirrored.
  const int64_t first = std::clamp<int64_t>(-window.left, 0, width_);
  const int64_t last = std::clamp<int64_t>(image.width - window.left, first, width_);
  const ChannelLevels& levels = levels_[channel];
  const uint8_t* plane = image.pixels.data() + static_cast<int64_t>(channel) * image.channel_stride;
  for (int64_t y = window.top; y < window.top + height_; ++y, row += width_) {
    const bool is_inside = y >= 0 && y < image.height;
    const int64_t end = is_inside ? last : first;
    std::fill(row, row + first, levels[0]);
    if (is_inside) {
      const uint8_t* source = plane + y * image.row_stride + (window.left + first) * image.column_stride;
      for (int64_t x = first; x < last; ++x, source += image.column_stride) row[x] = levels[*source];
    }
    std::fill(row + end, row + width_, levels[0]);
    if (window.mirrored) std::reverse(row, row + width_);
  }
}

}  // namespace detent
