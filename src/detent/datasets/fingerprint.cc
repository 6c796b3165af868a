#include "detent/datasets/dataset.h"

#include <algorithm>
#include <array>
#include <vector>

#include "detent/core/xxh64.h"

namespace detent {
namespace {

constexpr int64_t kMostValues = int64_t{1} << 24;
constexpr int64_t kBatch = 64;

/// A hash of parts in their order, each with that of the parts before it for a seed.
class Checksum {
 public:
  template <class T>
  void add(std::span<const T> values) {
    hash_ = xxh64(std::as_bytes(values), hash_);
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

/// Ascending; all where they are few enough.
std::vector<int64_t> looked_at(const Dataset& dataset) {
  int64_t values = 1;
  for (const SampleInput& input : dataset.inputs()) values = std::max(values, element_count(input.shape));
  const int64_t count = std::min(dataset.size(), std::max<int64_t>(kMostValues / values, 2));
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) {
    indices.push_back(count == dataset.size() ? i : i * (dataset.size() - 1) / (count - 1));
  }
  return indices;
}

}  // namespace

uint64_t data_fingerprint(const Dataset& dataset) {
  Checksum checksum;
  const std::array<int64_t, 2> sizes = {dataset.size(), dataset.class_count()};
  checksum.add(std::span<const int64_t>(sizes));
  for (const SampleInput& input : dataset.inputs()) checksum.add(std::span<const int64_t>(input.shape));
  checksum.add(dataset.labels());
  const std::vector<int64_t> indices = looked_at(dataset);
  for (int64_t begin = 0, end = 0; begin < std::ssize(indices); begin = end) {
    end = dataset.same_size_end(indices, begin, std::min(begin + kBatch, std::ssize(indices)));
    const Batch batch = dataset.batch(
        std::span(indices).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    for (const Tensor& input : batch.inputs) checksum.add(std::span<const std::byte>(input.bytes()));
  }
  return checksum.value();
}

}  // namespace detent
