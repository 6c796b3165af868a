#include "detent/datasets/dataset.h"

#include <utility>

#include "detent/core/error.h"

namespace detent {

std::string_view split_name(Split split) { return enum_names(split)[static_cast<size_t>(split)]; }

Dataset::Dataset(Shape sample_shape, int64_t class_count, std::vector<int64_t> labels, std::string source)
    : sample_shape_(std::move(sample_shape)),
      sample_elements_(element_count(sample_shape_)),
      class_count_(class_count),
      has_labels_(labels.empty() || labels.front() >= 0),
      labels_(std::move(labels)),
      source_(std::move(source)) {}

Batch Dataset::batch(std::span<const int64_t> indices, int64_t epoch) const {
  const auto count = static_cast<int64_t>(indices.size());
  Shape shape = {count};
  shape.insert(shape.end(), sample_shape_.begin(), sample_shape_.end());
  Batch batch{Tensor(DType::kFloat32, std::move(shape)), Tensor(DType::kInt64, {count})};
  std::span<float> inputs = batch.inputs.values<float>();
  const std::span<int64_t> labels = batch.labels.values<int64_t>();
  const auto stride = static_cast<size_t>(sample_elements_);
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t index = indices[i];
    DETENT_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    const std::span<float> target = inputs.subspan(i * stride, stride);
    try {
      epoch == 0 ? copy_sample(index, target) : copy_training_sample(index, epoch, target);
    } catch (const Error& error) {
      fail("{}: sample {}: {}", source_, index, error.what());
    }
    labels[i] = labels_[static_cast<size_t>(index)];
  }
  return batch;
}

void Dataset::copy_training_sample(int64_t index, int64_t /*epoch*/, std::span<float> target) const {
  copy_sample(index, target);
}

}  // namespace detent
