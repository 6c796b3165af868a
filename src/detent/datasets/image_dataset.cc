#include "detent/datasets/image_dataset.h"

#include <utility>

#include "detent/core/error.h"

namespace detent {
namespace {

ImageSampler make_sampler(const Tensor& images, const Normalisation& normalisation,
                          const DatasetOptions& options, const std::string& source) {
  DETENT_CHECK(images.rank() == 4 && images.dim(1) == static_cast<int64_t>(normalisation.mean.size()),
               "{} means for images {}", normalisation.mean.size(), shape_text(images.shape()));
  try {
    return ImageSampler(ImageSize{images.dim(2), images.dim(3)}, normalisation, options);
  } catch (const Error& error) {
    fail("{}: {}", source, error.what());
  }
}

}  // namespace

ImageDataset::ImageDataset(const Tensor& images, std::vector<int64_t> labels, int64_t class_count,
                           const Normalisation& normalisation, const DatasetOptions& options,
                           const std::string& source)
    : ImageDataset(images, std::move(labels), class_count,
                   make_sampler(images, normalisation, options, source), source) {}

ImageDataset::ImageDataset(Tensor images, std::vector<int64_t> labels, int64_t class_count,
                           ImageSampler sampler, std::string source)
    : Dataset(sampler.sample_shape(), class_count, std::move(labels), std::move(source)),
      images_(std::move(images)),
      sampler_(std::move(sampler)) {
  DETENT_CHECK(images_.dim(0) == size(), "images {} and {} labels", shape_text(images_.shape()), size());
}

ImageView ImageDataset::image(int64_t index) const {
  const int64_t height = images_.dim(2);
  const int64_t width = images_.dim(3);
  const int64_t bytes = images_.dim(1) * height * width;
  return {.pixels = images_.values<uint8_t>().subspan(static_cast<size_t>(index * bytes),
                                                      static_cast<size_t>(bytes)),
          .height = height,
          .width = width,
          .channel_stride = height * width,
          .row_stride = width};
}

void ImageDataset::copy_sample(int64_t index, std::span<float> target) const {
  sampler_.sample(image(index), target);
}

void ImageDataset::copy_training_sample(int64_t index, int64_t epoch, std::span<float> target) const {
  sampler_.training_sample(image(index), index, epoch, target);
}

}  // namespace detent
