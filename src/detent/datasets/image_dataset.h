#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/datasets/dataset.h"
#include "detent/datasets/image.h"

namespace detent {

/// The float32 value of each level of a channel.
using ChannelLevels = std::array<float, 256>;

/// (level / highest - mean) / std in float32, one rounding an operation, as torchvision's ToTensor and
/// Normalize compute.
ChannelLevels normalised_levels(float mean, float std, float highest = 255);

/// Mean and standard deviation of each channel, of levels divided by the highest.
struct Normalisation {
  std::vector<float> mean;
  std::vector<float> std;
  float highest = 255;
};

/// Bytes of an image; level (c, y, x) is pixels[c * channel_stride + y * row_stride + x * column_stride].
struct ImageView {
  std::span<const uint8_t> pixels;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channel_stride = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

/// All three channels of an image that was read.
ImageView view_of(const RgbImage& image);

/// Turns images into samples [channels, height, width], or channels last, as DatasetOptions::transforms say.
/// Random choices depend on seed, epoch and the sample's index alone, in a way that does not change:
/// neither order nor threads matter, and each transformation draws the same whether or not the others are on.
class ImageSampler {
 public:
  /// For images of `size`, or of any size where it is none, which needs a center_crop; with the normalisation
  /// that the transforms may replace. Throws Error naming the key on transforms that do not fit the images.
  /// `takes_samples_as_they_are`: an image of the samples' size is not scaled, unless it is cut at random.
  ImageSampler(std::optional<ImageSize> size, const Normalisation& own, const DatasetOptions& options,
               bool takes_samples_as_they_are = false);

  Shape sample_shape() const;

  /// As evaluated. Throws Error on an image that is too small to be cut.
  void sample(const ImageView& image, std::span<float> target) const;
  /// As seen in `epoch` (from 1) of training.
  void training_sample(const ImageView& image, int64_t index, int64_t epoch, std::span<float> target) const;

 private:
  /// Rows and columns of `image` from which the sample is taken; what lies outside is black.
  struct Window {
    int64_t top = 0;
    int64_t left = 0;
    bool mirrored = false;
  };
  Window middle_of(ImageSize size) const;
  /// Size of the scaled image; an Error where it is too small.
  ImageSize size_to_cut(const ImageView& image, bool randomly) const;
  /// Scales no more of the image than `window` needs; `size` is the whole scaled image's.
  void cut(const ImageView& image, ImageSize size, const Window& window, std::span<float> target) const;
  void copy_window(const ImageView& image, const Window& window, std::span<float> target) const;
  void copy_plane(const ImageView& image, const Window& window, size_t channel, float* row) const;

  ImageTransforms transforms_;
  uint64_t seed_;
  bool takes_samples_as_they_are_;
  std::vector<ChannelLevels> levels_;
  int64_t height_;  // of the samples
  int64_t width_;
};

/// Images kept as bytes.
class ImageDataset final : public Dataset {
 public:
  /// `images`: uint8 [n, channels, height, width]. `labels`: n of them, each in [0, class_count). Throws
  /// Error, beginning with `source`, on transforms that do not fit the images.
  ImageDataset(const Tensor& images, std::vector<int64_t> labels, int64_t class_count,
               const Normalisation& normalisation, const DatasetOptions& options, const std::string& source);

 private:
  ImageDataset(Tensor images, std::vector<int64_t> labels, int64_t class_count, ImageSampler sampler,
               std::string source);

  void copy_sample(int64_t index, std::span<float> target) const override;
  void copy_training_sample(int64_t index, int64_t epoch, std::span<float> target) const override;
  ImageView image(int64_t index) const;

  Tensor images_;
  ImageSampler sampler_;
};

/// Indices of the images that cannot be read, ascending: each is read once per process, and a warning names
/// each broken one.
std::vector<size_t> broken_images(const std::vector<std::filesystem::path>& images);
/// Number found so far.
size_t broken_image_count();

}  // namespace detent
