#pragma once

#include <string>
#include <vector>

#include "detent/datasets/dataset.h"
#include "detent/datasets/image_sampler.h"

namespace detent {

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

}  // namespace detent
