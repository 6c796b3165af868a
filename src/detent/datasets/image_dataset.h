#pragma once

#include <array>
#include <string>
#include <vector>

#include "detent/datasets/dataset.h"

namespace detent {

/// The float32 value of each level of a channel.
using ChannelLevels = std::array<float, 256>;

/// (level / 255 - mean) / std in float32, one rounding an operation, as torchvision's ToTensor and Normalize
/// compute.
ChannelLevels normalised_levels(float mean, float std);

/// Images kept as bytes; a batch looks their levels up.
class ImageDataset final : public Dataset {
 public:
  /// `images`: uint8 [n, channels, height, width]. `labels`: n of them, each in [0, class_count). `levels`:
  /// one table a channel.
  ImageDataset(Tensor images, std::vector<int64_t> labels, int64_t class_count,
               std::vector<ChannelLevels> levels, std::string source);

 private:
  void copy_sample(int64_t index, std::span<float> target) const override;

  Tensor images_;
  std::vector<ChannelLevels> levels_;
};

}  // namespace detent
