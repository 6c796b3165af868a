#include "detent/datasets/collected_samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "detent/core/error.h"
#include "detent/core/tensor.h"

namespace detent {
namespace {

constexpr size_t kBlockBytes = size_t{8} << 20;

int64_t bytes_of(const SampleInput& input, const Shape& shape, int64_t rows) {
  return std::max<int64_t>(rows, 1) * element_count(shape) * static_cast<int64_t>(dtype_size(input.dtype));
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
    Sizes sizes;
    for (const Size& size : sizes_) sizes.shapes.push_back(size.shapes);
    for (const Place& place : places_) sizes.of_samples.push_back(place.size);
    set_sizes(std::move(sizes));
  }

 private:
  static std::vector<SampleInput> with_shapes(const CollectedSamples& collected) {
    std::vector<SampleInput> inputs = collected.inputs_;
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].shape = collected.sizes_.front().shapes[i];
    return inputs;
  }

  std::vector<Tensor> gather(std::span<const int64_t> indices, int64_t /*epoch*/) const override {
    const size_t size = indices.empty() ? 0 : places_[static_cast<size_t>(indices.front())].size;
    std::vector<Tensor> batch;
    int64_t before = 0;  // bytes of the inputs before this one
    for (size_t i = 0; i < inputs().size(); ++i) {
      Shape shape = sizes_[size].shapes[i];
      const int64_t rows = sizes_[size].rows[i];
      const int64_t bytes = bytes_of(inputs()[i], shape, rows);
      if (rows > 0 || indices.size() > 1)
        shape.insert(shape.begin(), std::ssize(indices) * std::max<int64_t>(rows, 1));
      Tensor& tensor = batch.emplace_back(unfilled_tensor(inputs()[i].dtype, std::move(shape)));
      std::byte* target = tensor.bytes().data();
      for (const int64_t index : indices) {
        const Place& place = places_[static_cast<size_t>(index)];
        const Tensor sample = blocks_[place.block].rows(place.offset + before, place.offset + before + bytes);
        std::memcpy(target, std::as_const(sample).bytes().data(), sample.byte_size());
        target += sample.byte_size();
        if (place.block > 0) unmap_pages(sample);
      }
      before += bytes;
    }
    return batch;
  }

  std::vector<Size> sizes_;
  std::vector<Place> places_;
  std::vector<Tensor> blocks_;
};

CollectedSamples::CollectedSamples(std::vector<SampleInput> inputs, std::filesystem::path folder,
                                   std::string source, std::vector<int64_t> rows)
    : inputs_(std::move(inputs)),
      rows_(std::move(rows)),
      scratch_(std::move(folder), 0),
      source_(std::move(source)) {
  DETENT_CHECK(!inputs_.empty(), "{}: samples without inputs", source_);
  DETENT_CHECK(rows_.empty() || rows_.size() == inputs_.size(), "{}: {} of {} inputs have rows", source_,
               rows_.size(), inputs_.size());
  if (rows_.empty()) rows_.assign(inputs_.size(), 1);
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

std::string CollectedSamples::where(size_t input) const {
  return fmt::format("{}: sample {}, {}", source_, size(), input_text(inputs_[input], input));
}

int64_t CollectedSamples::count_of(std::span<const Tensor> batch) const {
  std::optional<size_t> counted;  // the first input of which the size of a sample is known
  int64_t count = 1;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (rows_[i] <= 0) continue;
    if (batch[i].rank() == 0) fail("{}: got a single number, expected samples, batch first", where(i));
    if (batch[i].dim(0) % rows_[i] != 0)
      fail("{}: got {} rows, expected {} a sample", where(i), batch[i].dim(0), rows_[i]);
    const int64_t own = batch[i].dim(0) / rows_[i];
    if (counted && own != count)
      fail("{}: got {} samples, expected {}, as of {}", where(i), own, count,
           input_text(inputs_[*counted], *counted));
    if (!counted) counted = i;
    count = own;
  }
  for (size_t i = 0; i < batch.size(); ++i)
    if (rows_[i] == kOwnRows && (batch[i].rank() == 0 || batch[i].dim(0) != count)) return 1;
  return count;
}

size_t CollectedSamples::size_of(std::span<const Tensor> batch, int64_t count) {
  Size size;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Shape& shape = batch[i].shape();
    const bool is_number = rows_[i] == 0;
    if (is_number ? batch[i].numel() != 1 : shape.empty() || shape.front() % count != 0) {
      fail("{}: got {}, expected {}", where(i), shape_text(shape),
           is_number ? "one number" : fmt::format("rows of {} samples", count));
    }
    size.rows.push_back(is_number ? 0 : shape.front() / count);
    size.shapes.push_back(is_number ? Shape() : Shape(shape.begin() + 1, shape.end()));
  }
  const auto known = std::ranges::find(sizes_, size);
  const auto index = static_cast<size_t>(known - sizes_.begin());
  if (known == sizes_.end()) sizes_.push_back(std::move(size));
  return index;
}

void CollectedSamples::check(std::span<const Tensor> batch) const {
  if (batch.size() != inputs_.size())
    fail("{}: sample {}: got {} inputs, expected {}", source_, size(), batch.size(), inputs_.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].dtype() != inputs_[i].dtype)
      fail("{}: got {}, expected {}", where(i), dtype_name(batch[i].dtype()), dtype_name(inputs_[i].dtype));
    if (batch[i].dtype() != DType::kFloat32) continue;
    const bool has_nan = std::ranges::any_of(batch[i].values<float>(), [](float x) { return std::isnan(x); });
    if (has_nan) fail("{}: got NaN, expected numbers", where(i));
  }
}

void CollectedSamples::check_labels(std::span<const int64_t> labels, int64_t count) const {
  const bool had_labels = !labels_.empty() && labels_.front() >= 0;
  if (!labels_.empty() && count > 0 && had_labels == labels.empty())
    fail("{}: sample {}: got {} label, expected one for all samples or for none", source_, size(),
         labels.empty() ? "no" : "a");
  if (!labels.empty() && std::ssize(labels) != count)
    fail("{}: sample {}: got {} labels of {} samples", source_, size(), labels.size(), count);
  const auto negative = std::ranges::find_if(labels, [](int64_t label) { return label < 0; });
  if (negative != labels.end())
    fail("{}: sample {}: got the label {}, expected one of at least 0", source_, size(), *negative);
}

void CollectedSamples::add(std::span<const Tensor> batch, std::span<const int64_t> labels) {
  check(batch);
  const int64_t count = count_of(batch);
  check_labels(labels, count);
  if (count == 0) return;
  const size_t size = size_of(batch, count);
  size_t bytes = 0;
  for (size_t i = 0; i < inputs_.size(); ++i)
    bytes += static_cast<size_t>(bytes_of(inputs_[i], sizes_[size].shapes[i], sizes_[size].rows[i]));
  for (int64_t sample = 0; sample < count; ++sample) {
    Place place{size, 0, 0};
    std::byte* target = room(bytes, place).data();
    for (size_t i = 0; i < batch.size(); ++i) {
      const int64_t rows = sizes_[size].rows[i];
      const Tensor part = rows == 0 ? batch[i] : batch[i].rows(sample * rows, (sample + 1) * rows);
      std::memcpy(target, part.bytes().data(), part.byte_size());
      target += part.byte_size();
    }
    places_.push_back(place);
    labels_.push_back(labels.empty() ? -1 : labels[static_cast<size_t>(sample)]);
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
