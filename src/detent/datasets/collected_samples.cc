#include "detent/datasets/collected_samples.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/core/tensor.h"

namespace detent {
namespace {

constexpr size_t kBlockBytes = size_t{8} << 20;

size_t sample_bytes(std::span<const SampleInput> inputs, const std::vector<Shape>& shapes) {
  size_t bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    bytes += static_cast<size_t>(element_count(shapes[i])) * dtype_size(inputs[i].dtype);
  return bytes;
}

std::string input_text(const SampleInput& input, size_t index) {
  return input.name.empty() ? fmt::format("input {}", index) : fmt::format("input {}", input.name);
}

}  // namespace

/// Reads what was collected.
class CollectedSamples::Samples final : public Dataset {
 public:
  explicit Samples(CollectedSamples collected, int64_t class_count)
      : Dataset(with_shapes(collected), class_count, std::move(collected.labels_), collected.source_),
        sizes_(collected.sizes_),
        places_(std::move(collected.places_)),
        blocks_(std::move(collected.blocks_)) {
    if (sizes_.size() < 2) return;
    Sizes sizes{sizes_, {}};
    for (const Place& place : places_) sizes.of_samples.push_back(place.size);
    set_sizes(std::move(sizes));
  }

 private:
  static std::vector<SampleInput> with_shapes(const CollectedSamples& collected) {
    std::vector<SampleInput> inputs = collected.inputs_;
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].shape = collected.sizes_.front()[i];
    return inputs;
  }

  std::vector<Tensor> gather(std::span<const int64_t> indices, int64_t /*epoch*/) const override {
    const size_t size = indices.empty() ? 0 : places_[static_cast<size_t>(indices.front())].size;
    std::vector<Tensor> batch;
    int64_t before = 0;  // bytes of the inputs before this one
    for (size_t i = 0; i < inputs().size(); ++i) {
      Shape shape = sizes_[size][i];
      const int64_t bytes = element_count(shape) * static_cast<int64_t>(dtype_size(inputs()[i].dtype));
      shape.insert(shape.begin(), std::ssize(indices));
      Tensor& tensor = batch.emplace_back(unfilled_tensor(inputs()[i].dtype, std::move(shape)));
      auto target = tensor.bytes().begin();
      for (const int64_t index : indices) {
        const Place& place = places_[static_cast<size_t>(index)];
        const Tensor sample = blocks_[place.block].rows(place.offset + before, place.offset + before + bytes);
        target = std::ranges::copy(std::as_const(sample).bytes(), target).out;
        if (place.block > 0) unmap_pages(sample);
      }
      before += bytes;
    }
    return batch;
  }

  std::vector<std::vector<Shape>> sizes_;
  std::vector<Place> places_;
  std::vector<Tensor> blocks_;
};

CollectedSamples::CollectedSamples(std::vector<SampleInput> inputs, std::filesystem::path folder,
                                   std::string source)
    : inputs_(std::move(inputs)), scratch_(std::move(folder), 0), source_(std::move(source)) {
  DETENT_CHECK(!inputs_.empty(), "{}: samples without inputs", source_);
}

std::span<std::byte> CollectedSamples::room(size_t bytes, Place& place) {
  const auto size = static_cast<int64_t>(bytes);
  if (blocks_.empty() || used_ + size > blocks_.back().numel()) {
    const Shape shape = {static_cast<int64_t>(std::max({bytes, kBlockBytes, size_t{1}}))};
    if (blocks_.empty()) {
      blocks_.emplace_back(DType::kUInt8, shape);
    } else {
      if (blocks_.size() > 1) unmap_pages(blocks_.back());
      blocks_.push_back(scratch_.tensor(DType::kUInt8, shape));
    }
    used_ = 0;
  }
  place.block = blocks_.size() - 1;
  place.offset = used_;
  used_ += size;
  return blocks_.back().bytes().subspan(static_cast<size_t>(place.offset), bytes);
}

size_t CollectedSamples::size_of(std::span<const Tensor> batch) {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : batch) shapes.emplace_back(tensor.shape().begin() + 1, tensor.shape().end());
  const auto known = std::ranges::find(sizes_, shapes);
  const auto index = static_cast<size_t>(known - sizes_.begin());
  if (known == sizes_.end()) sizes_.push_back(std::move(shapes));
  return index;
}

void CollectedSamples::check(std::span<const Tensor> batch, std::span<const int64_t> labels) const {
  const auto where = [&](size_t i) {
    return fmt::format("{}: sample {}, {}", source_, size(), input_text(inputs_[i], i));
  };
  if (batch.size() != inputs_.size())
    fail("{}: sample {}: got {} inputs, expected {}", source_, size(), batch.size(), inputs_.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].dtype() != inputs_[i].dtype)
      fail("{}: got {}, expected {}", where(i), dtype_name(batch[i].dtype()), dtype_name(inputs_[i].dtype));
    if (batch[i].rank() == 0) fail("{}: got a single number, expected samples, batch first", where(i));
    if (batch[i].dim(0) != batch[0].dim(0))
      fail("{}: got {} samples, expected {}, as of {}", where(i), batch[i].dim(0), batch[0].dim(0),
           input_text(inputs_[0], 0));
    if (batch[i].dtype() != DType::kFloat32) continue;
    const bool has_nan = std::ranges::any_of(batch[i].values<float>(), [](float x) { return std::isnan(x); });
    if (has_nan) fail("{}: got NaN, expected numbers", where(i));
  }
  const bool had_labels = !labels_.empty() && labels_.front() >= 0;
  if (!labels_.empty() && batch[0].dim(0) > 0 && had_labels == labels.empty())
    fail("{}: sample {}: got {} label, expected one for all samples or for none", source_, size(),
         labels.empty() ? "no" : "a");
  if (!labels.empty() && std::ssize(labels) != batch[0].dim(0))
    fail("{}: sample {}: got {} labels of {} samples", source_, size(), labels.size(), batch[0].dim(0));
  const auto negative = std::ranges::find_if(labels, [](int64_t label) { return label < 0; });
  if (negative != labels.end())
    fail("{}: sample {}: got the label {}, expected one of at least 0", source_, size(), *negative);
}

void CollectedSamples::add(std::span<const Tensor> batch, std::span<const int64_t> labels) {
  check(batch, labels);
  const int64_t count = batch[0].dim(0);
  if (count == 0) return;
  const size_t size = size_of(batch);
  const size_t bytes = sample_bytes(inputs_, sizes_[size]);
  for (int64_t row = 0; row < count; ++row) {
    Place place{size, 0, 0};
    auto target = room(bytes, place).begin();
    for (const Tensor& tensor : batch) {
      const Tensor sample = tensor.rows(row, row + 1);
      target = std::ranges::copy(sample.bytes(), target).out;
    }
    places_.push_back(place);
    labels_.push_back(labels.empty() ? -1 : labels[static_cast<size_t>(row)]);
  }
}

std::unique_ptr<Dataset> CollectedSamples::finish(int64_t class_count) {
  if (places_.empty()) fail("{}: got no samples, expected at least one", source_);
  const int64_t largest = std::ranges::max(labels_);
  if (largest >= class_count && largest >= 0)
    fail("{}: got the label {}, expected one less than {}, as the network has so many classes", source_,
         largest, class_count);
  return std::make_unique<Samples>(std::move(*this), class_count);
}

}  // namespace detent
