#include "detent/statistics/range_min_max.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "detent/core/parallel.h"
#include "detent/formats/float_environment.h"

namespace detent {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kGrain = int64_t{1} << 18;

}  // namespace

void RangeMinMax::Extremes::resize(size_t slots) {
  min.resize(slots, kInfinity);
  max.resize(slots, -kInfinity);
}

void RangeMinMax::Extremes::add(size_t slot, float value) {
  special.nan += std::isnan(value) ? 1 : 0;
  special.infinity += std::isinf(value) ? 1 : 0;
  // Comparisons with NaN are false.
  if (value < min[slot]) min[slot] = value;
  if (value > max[slot]) max[slot] = value;
}

void RangeMinMax::Extremes::merge(const Extremes& other) {
  resize(std::max(min.size(), other.min.size()));
  for (size_t slot = 0; slot < other.min.size(); ++slot) {
    min[slot] = std::min(min[slot], other.min[slot]);
    max[slot] = std::max(max[slot], other.max[slot]);
  }
  special.merge(other.special);
}

RangeMinMax::Extremes RangeMinMax::extremes_of(std::span<const float> values, int64_t begin,
                                               int64_t end) const {
  Extremes part;
  part.resize(reduction_.slots());
  int64_t position = options_.dims.all ? 0 : begin % reduction_.sample_size();
  for (int64_t i = begin; i < end; ++i) {
    const float value = values[static_cast<size_t>(i)];
    part.add(reduction_.slot(position), options_.abs ? std::fabs(value) : value);
    if (!options_.dims.all && ++position == reduction_.sample_size()) position = 0;
  }
  return part;
}

void RangeMinMax::update(const Tensor& sample_batch) {
  check_sample_dtype(sample_batch, kName);
  reduction_.accept(sample_batch);
  extremes_.resize(reduction_.slots());
  const std::span<const float> values = sample_batch.values<float>();
  std::mutex mutex;
  parallel_for(sample_batch.numel(), kGrain, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    const Extremes part = extremes_of(values, begin, end);
    const std::lock_guard lock(mutex);
    extremes_.merge(part);
  });
  elements_ += sample_batch.numel();
}

void RangeMinMax::merge(const Collector& other) {
  const auto* same = dynamic_cast<const RangeMinMax*>(&other);
  DETENT_CHECK(same != nullptr && same != this && same->options_ == options_, "merging {} into {}",
               other.name(), kName);
  reduction_.accept(same->reduction_);
  const DefaultFloatEnvironment environment;
  extremes_.merge(same->extremes_);
  elements_ += same->elements_;
}

Table RangeMinMax::result() const {
  if (elements_ == 0) fail("{}: no value was seen", kName);
  const DefaultFloatEnvironment environment;
  for (size_t slot = 0; slot < extremes_.min.size(); ++slot) {
    if (extremes_.min[slot] > extremes_.max[slot]) {
      fail("{}: only NaN was seen at kept position {} of {}", kName, slot, extremes_.min.size());
    }
  }
  const auto slots = static_cast<int64_t>(reduction_.slots());
  Table table = range_table(reduction_, extremes_.min, extremes_.max, elements_ / slots);
  extremes_.special.write(table);
  return table;
}

}  // namespace detent
