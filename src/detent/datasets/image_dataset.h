#pragma once

#include <array>
#include <string>
#include <vector>

#include "detent/datasets/dataset.h"

namespace detent {

/// The float32 value of each grey level.
using GreyLevels = std::array<float, 256>;

/// Single-channel images kept as bytes; a batch looks their grey levels up.
class ImageDataset final : public Dataset {
 public:
  /// `images`: uint8 [n, height, width]. `labels`: n of them, each in [0, class_count).
  ImageDataset(Tensor images, std::vector<int64_t> labels, int64_t class_count, const GreyLevels& levels,
               std::string source);

 private:
  void copy_sample(int64_t index, std::span<float> target) const override;

  Tensor images_;
  GreyLevels levels_;
};

}  // namespace detent
