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

  template <class Map>
  void add(const float* values, int64_t size, float bound, const Map& map) {
    const auto vectors = static_cast<size_t>(size) / kLanes;
    for (size_t i = 0; i < vectors; ++i) {
      for (size_t lane = 0; lane < kLanes; ++lane) add_one(lane, map(values[i * kLanes + lane]), bound);
    }
    for (size_t i = vectors * kLanes; i < static_cast<size_t>(size); ++i)
      add_one(i % kLanes, map(values[i]), bound);
  }

  void add_one(size_t lane, float value, float bound) {
    const float magnitude = std::fabs(value);
    const bool counted = magnitude > bound && magnitude <= std::numeric_limits<float>::max();
    sum[lane] += counted ? static_cast<double>(magnitude) : 0.0;
    count[lane] += counted ? 1 : 0;
  }

  MagnitudeSum total() const {
    MagnitudeSum result;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      result.sum += sum[lane];
      result.count += count[lane];
    }
    return result;
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

template <class Visit>
void Group::for_each_run(int64_t begin, int64_t end, const Visit& visit) const {
  for (int64_t position = begin; position < end;) {
    const int64_t row = position / grouping_.inner;
    const int64_t column = position % grouping_.inner;
    const int64_t size = std::min(grouping_.inner - column, end - position);
    visit(&values_[static_cast<size_t>((row * grouping_.groups + index_) * grouping_.inner + column)], size);
    position += size;
  }
}

template <class Map>
MagnitudeSum Group::sum_magnitudes(float bound, const Map& map) const {
  const int64_t count = element_count();
  std::vector<MagnitudeSum> chunks(static_cast<size_t>((count + kChunk - 1) / kChunk));
  parallel_for(count, kChunk, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    LaneSums lanes;
    for_each_run(begin, end, [&](const float* run, int64_t size) { lanes.add(run, size, bound, map); });
    chunks[static_cast<size_t>(begin / kChunk)] = lanes.total();
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
    for_each_run(begin, end, [&](const float* run, int64_t size) {
      largest = std::max(largest, largest_magnitude_bits(run, size));
    });
    chunks[static_cast<size_t>(begin / kChunk)] = std::bit_cast<float>(largest);
  });
  return chunks.empty() ? 0 : *std::ranges::max_element(chunks);
}

MagnitudeSum Group::magnitudes_above(float bound) const {
  return sum_magnitudes(bound, [](float x) { return x; });
}

MagnitudeSum Group::residual_magnitudes(std::span<const float> gammas) const {
  return sum_magnitudes(-1.0F, [gammas](float x) {
    for (const float gamma : gammas) x -= x >= 0 ? gamma : -gamma;
    return x;
  });
}

Interval Group::range_with_zero() const {
  const int64_t count = element_count();
  std::vector<Interval> chunks(static_cast<size_t>((count + kChunk - 1) / kChunk));
  parallel_for(count, kChunk, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    Interval range{0, 0};
    for_each_run(begin, end, [&](const float* run, int64_t size) {
      for (int64_t i = 0; i < size; ++i) {
        const float x = std::fabs(run[i]) <= std::numeric_limits<float>::max() ? run[i] : 0.0F;
        range = {std::min(range.low, x), std::max(range.high, x)};
      }
    });
    chunks[static_cast<size_t>(begin / kChunk)] = range;
  });
  Interval total{0, 0};
  for (const Interval& chunk : chunks) {
    total = {std::min(total.low, chunk.low), std::max(total.high, chunk.high)};
  }
  return total;
}

std::string Group::name() const {
  return grouping_.groups == 1 ? "the tensor" : fmt::format("channel {}", index_);
}

}  // namespace detent
