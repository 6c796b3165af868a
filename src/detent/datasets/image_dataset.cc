#include "detent/datasets/image_dataset.h"

#include <algorithm>
#include <utility>

#include "detent/core/error.h"

namespace detent {

ImageDataset::ImageDataset(Tensor images, std::vector<int64_t> labels, int64_t class_count,
                           const GreyLevels& levels, std::string source)
    : Dataset({1, images.dim(1), images.dim(2)}, class_count, std::move(labels), std::move(source)),
      images_(std::move(images)),
      levels_(levels) {
  DETENT_CHECK(images_.rank() == 3 && images_.dim(0) == size(), "images {} and {} labels",
               shape_text(images_.shape()), size());
}

void ImageDataset::copy_sample(int64_t index, std::span<float> target) const {
  const std::span<const uint8_t> pixels = images_.values<uint8_t>();
  const std::span<const uint8_t> image =
      pixels.subspan(static_cast<size_t>(index) * target.size(), target.size());
  std::transform(image.begin(), image.end(), target.begin(),
                 [this](uint8_t level) { return levels_[level]; });
}

}  // namespace detent
