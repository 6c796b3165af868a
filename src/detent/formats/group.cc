#include "detent/formats/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/formats/float_environment.h"

namespace detent {
namespace {

constexpr int64_t kChunk = 16384;
constexpr size_t kLanes = 8;

/// Eight running sums, element i of a run in sum i mod 8: an order that vector units of any width can keep.
struct LaneSums {
  double sum[kLanes] = {};
  int64_t count[kLanes] = {};

  void add(const float* values, int64_t size, float bound) {
    const auto vectors = static_cast<size_t>(size) / kLanes;
    for (size_t i = 0; i < vectors; ++i) {
      for (size_t lane = 0; lane < kLanes; ++lane) add_one(lane, values[i * kLanes + lane], bound);
    }
    for (size_t i = vectors * kLanes; i < static_cast<size_t>(size); ++i)
      add_one(i % kLanes, values[i], bound);
  }

  void add_one(size_t lane, float value, float bound) {
    const float magnitude = std::fabs(value);
    const bool counted = magnitude > bound && magnitude <= std::numeric_limits<float>::max();
    sum[lane] += counted ? static_cast<double>(magnitude) : 0.0;
    count[lane] += counted ? 1 : 0;
  }
};

/// Positive float32 are ordered as their bits are; infinities and NaN count as 0.
int32_t largest_magnitude_bits(const float* values, int64_t size) {
  constexpr int32_t kLargestFinite = 0x7F7FFFFF;
  int32_t largest = 0;
  for (int64_t i = 0; i < size; ++i) {
    const int32_t bits = std::bit_cast<int32_t>(values[i]) & 0x7FFFFFFF;
    largest = std::max(largest, bits > kLargestFinite ? 0 : bits);
  }
  return largest;
}

}  // namespace

template <class Visitor>
void Group::visit_runs(int64_t begin, int64_t end, Visitor&& visit) const {
  for (int64_t position = begin; position < end;) {
    const int64_t row = position / grouping_.inner;
    const int64_t column = position % grouping_.inner;
    const int64_t size = std::min(grouping_.inner - column, end - position);
    visit(&values_[static_cast<size_t>((row * grouping_.groups + index_) * grouping_.inner + column)], size);
    position += size;
  }
}

MagnitudeSum Group::chunk_sum(int64_t begin, int64_t end, float bound) const {
  LaneSums lanes;
  visit_runs(begin, end, [&](const float* values, int64_t size) { lanes.add(values, size, bound); });
  MagnitudeSum result;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    result.sum += lanes.sum[lane];
    result.count += lanes.count[lane];
  }
  return result;
}

MagnitudeSum Group::magnitudes_above(float bound) const {
  const int64_t count = element_count();
  std::vector<MagnitudeSum> chunks(static_cast<size_t>((count + kChunk - 1) / kChunk));
  parallel_for(count, kChunk, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    chunks[static_cast<size_t>(begin / kChunk)] = chunk_sum(begin, end, bound);
  });
  MagnitudeSum total;
  for (const MagnitudeSum& chunk : chunks) {
    total.sum += chunk.sum;
    total.count += chunk.count;
  }
  return total;
}

float Group::largest_magnitude() const {
  const int64_t count = element_count();
  std::vector<float> chunks(static_cast<size_t>((count + kChunk - 1) / kChunk));
  parallel_for(count, kChunk, [&](int64_t begin, int64_t end) {
    int32_t largest = 0;
    visit_runs(begin, end, [&](const float* values, int64_t size) {
      largest = std::max(largest, largest_magnitude_bits(values, size));
    });
    chunks[static_cast<size_t>(begin / kChunk)] = std::bit_cast<float>(largest);
  });
  return chunks.empty() ? 0 : *std::ranges::max_element(chunks);
}

std::string Group::name() const {
  return grouping_.groups == 1 ? "the tensor" : fmt::format("channel {}", index_);
}

}  // namespace detent
