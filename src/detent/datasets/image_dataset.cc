#include "detent/datasets/image_dataset.h"

#include <algorithm>
#include <utility>

#include "detent/core/error.h"

namespace detent {

ChannelLevels normalised_levels(float mean, float std) {
  ChannelLevels levels{};
  for (size_t level = 0; level < levels.size(); ++level) {
    const float scaled = static_cast<float>(level) / 255.0F;
    const float centred = scaled - mean;
    levels[level] = centred / std;
  }
  return levels;
}

ImageDataset::ImageDataset(Tensor images, std::vector<int64_t> labels, int64_t class_count,
                           std::vector<ChannelLevels> levels, std::string source)
    : Dataset({images.dim(1), images.dim(2), images.dim(3)}, class_count, std::move(labels),
              std::move(source)),
      images_(std::move(images)),
      levels_(std::move(levels)) {
  DETENT_CHECK(images_.rank() == 4 && images_.dim(0) == size(), "images {} and {} labels",
               shape_text(images_.shape()), size());
  DETENT_CHECK(images_.dim(1) == static_cast<int64_t>(levels_.size()), "{} tables for images {}",
               levels_.size(), shape_text(images_.shape()));
}

void ImageDataset::copy_sample(int64_t index, std::span<float> target) const {
  const std::span<const uint8_t> image =
      images_.values<uint8_t>().subspan(static_cast<size_t>(index) * target.size(), target.size());
  const size_t plane = target.size() / levels_.size();
  for (size_t channel = 0; channel < levels_.size(); ++channel) {
    const ChannelLevels& levels = levels_[channel];
    std::ranges::transform(image.subspan(channel * plane, plane), target.subspan(channel * plane).begin(),
                           [&levels](uint8_t level) { return levels[level]; });
  }
}

}  // namespace detent
