#include "detent/datasets/dataset.h"

#include <array>
#include <utility>

#include "detent/core/error.h"

namespace detent {

std::string_view split_name(Split split) { return enum_name(split); }

Dataset::Dataset(std::span<const SampleInput> inputs, int64_t class_count, std::vector<int64_t> labels,
                 std::string source)
    : inputs_(inputs.begin(), inputs.end()),
      class_count_(class_count),
      has_labels_(labels.empty() || labels.front() >= 0),
      labels_(std::move(labels)),
      source_(std::move(source)) {
  DETENT_CHECK(!inputs_.empty(), "{}: samples without inputs", source_);
}

Dataset::Dataset(Shape sample_shape, int64_t class_count, std::vector<int64_t> labels, std::string source)
    : Dataset(std::array{SampleInput{.name = "", .shape = std::move(sample_shape)}}, class_count,
              std::move(labels), std::move(source)) {}

std::vector<Shape> Dataset::shapes(size_t size) const {
  if (!sizes_.shapes.empty()) return sizes_.shapes.at(size);
  std::vector<Shape> shapes;
  for (const SampleInput& input : inputs_) shapes.push_back(input.shape);
  return shapes;
}

int64_t Dataset::same_size_end(std::span<const int64_t> order, int64_t begin, int64_t end) const {
  if (sizes_.of_samples.empty()) return end;
  const auto size_at = [&](int64_t place) { return size_of_sample(order[static_cast<size_t>(place)]); };
  int64_t place = begin;
  while (place < end && size_at(place) == size_at(begin)) ++place;
  return place;
}

Batch Dataset::batch(std::span<const int64_t> indices, int64_t epoch) const {
  for (const int64_t index : indices) {
    DETENT_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    if (size_of_sample(index) == size_of_sample(indices.front())) continue;
    fail(
        "{}: sample {} has the shape {} and sample {} {}: samples of one batch must have the same (images: "
        "image_size scales and cuts them)",
        source_, indices.front(), shape_text(shapes(size_of_sample(indices.front())).front()), index,
        shape_text(shapes(size_of_sample(index)).front()));
  }
  Batch batch{gather(indices, epoch), Tensor(DType::kInt64, {std::ssize(indices)})};
  const std::span<int64_t> labels = batch.labels.values<int64_t>();
  for (size_t i = 0; i < indices.size(); ++i) labels[i] = labels_[static_cast<size_t>(indices[i])];
  return batch;
}

std::vector<Tensor> Dataset::gather(std::span<const int64_t> indices, int64_t epoch) const {
  Shape shape = shapes(indices.empty() ? 0 : size_of_sample(indices.front())).front();
  const auto stride = static_cast<size_t>(element_count(shape));
  shape.insert(shape.begin(), std::ssize(indices));
  Tensor inputs = unfilled_tensor(DType::kFloat32, std::move(shape));
  const std::span<float> values = inputs.values<float>();
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::span<float> target = values.subspan(i * stride, stride);
    try {
      epoch == 0 ? copy_sample(indices[i], target) : copy_training_sample(indices[i], epoch, target);
    } catch (const Error& error) {
      fail("{}: sample {}: {}", source_, indices[i], error.what());
    }
  }
  return {std::move(inputs)};
}

void Dataset::copy_sample(int64_t index, std::span<float> /*target*/) const {
  DETENT_CHECK(false, "{}: sample {} cannot be copied by itself", source_, index);
}

void Dataset::copy_training_sample(int64_t index, int64_t /*epoch*/, std::span<float> target) const {
  copy_sample(index, target);
}

}  // namespace detent
