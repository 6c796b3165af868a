#include "detent/statistics/recording.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr uint64_t kUnknownIndex = std::numeric_limits<uint64_t>::max();

bool bits_less(float a, float b) { return std::bit_cast<uint32_t>(a) < std::bit_cast<uint32_t>(b); }

}  // namespace

void Recording::check(const Shape& shape, int64_t more) const {
  if (!samples_.empty() && shape != sample_shape_)
    fail("record: got samples of shape {} after samples of shape {}", shape_text(shape),
         shape_text(sample_shape_));
  if (more > max_bytes_ - bytes_)
    fail("record: got {} bytes of values, expected at most max_bytes = {}", bytes_ + more, max_bytes_);
}

void Recording::add(const Tensor& batch, std::optional<int64_t> first_sample) {
  const Shape& shape = batch.shape();
  const Shape sample_shape = shape.empty() ? Shape{} : Shape(shape.begin() + 1, shape.end());
  const int64_t samples = shape.empty() ? 1 : shape[0];
  if (samples == 0) return;
  check(sample_shape, static_cast<int64_t>(batch.byte_size()));
  sample_shape_ = sample_shape;
  bytes_ += static_cast<int64_t>(batch.byte_size());
  const auto values = batch.values<float>();
  const size_t size = values.size() / static_cast<size_t>(samples);
  for (int64_t i = 0; i < samples; ++i) {
    const auto sample = values.subspan(static_cast<size_t>(i) * size, size);
    const uint64_t index = first_sample ? static_cast<uint64_t>(*first_sample + i) : kUnknownIndex;
    samples_.push_back({index, {sample.begin(), sample.end()}});
  }
}

void Recording::merge(const Recording& other) {
  if (other.samples_.empty()) return;
  check(other.sample_shape_, other.bytes_);
  sample_shape_ = other.sample_shape_;
  bytes_ += other.bytes_;
  samples_.insert(samples_.end(), other.samples_.begin(), other.samples_.end());
}

std::vector<const Recording::Sample*> Recording::sorted() const {
  std::vector<const Sample*> order;
  for (const Sample& sample : samples_) order.push_back(&sample);
  std::ranges::sort(order, [](const Sample* a, const Sample* b) {
    if (a->index != b->index) return a->index < b->index;
    return std::ranges::lexicographical_compare(a->values, b->values, bits_less);
  });
  return order;
}

std::vector<std::vector<float>> Recording::samples() const {
  std::vector<std::vector<float>> samples;
  for (const Sample* sample : sorted()) samples.push_back(sample->values);
  return samples;
}

void Recording::write(StateWriter& writer) const {
  writer.compact(sample_shape_.size());
  for (const int64_t dim : sample_shape_) writer.count(dim);
  writer.compact(samples_.size());
  for (const Sample* sample : sorted()) {
    writer.number(sample->index);
    writer.reals(sample->values);
  }
}

void Recording::read(StateReader& reader) {
  const uint64_t rank = reader.compact();
  reader.expect(rank, sizeof(int64_t));
  for (uint64_t i = 0; i < rank; ++i) sample_shape_.push_back(reader.count());
  const auto size = static_cast<uint64_t>(element_count(sample_shape_));
  const uint64_t count = reader.compact();
  reader.expect(count, sizeof(uint64_t) + 1);
  for (uint64_t i = 0; i < count; ++i) {
    const auto index = reader.number<uint64_t>();
    samples_.push_back({index, reader.reals()});
    if (samples_.back().values.size() != size) bad_state("a recorded sample has another size");
    bytes_ += static_cast<int64_t>(size * sizeof(float));
  }
}

}  // namespace detent
