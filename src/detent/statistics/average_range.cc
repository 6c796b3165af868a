#include "detent/statistics/average_range.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/formats/float_environment.h"

namespace detent {

void AverageRange::add_sample(std::span<const float> sample) {
  float min = std::numeric_limits<float>::infinity();
  float max = -min;
  for (float value : sample) {
    special_.nan += std::isnan(value) ? 1 : 0;
    special_.infinity += std::isinf(value) ? 1 : 0;
    if (!std::isfinite(value)) continue;
    if (options_.abs) value = std::fabs(value);
    min = std::min(min, value);
    max = std::max(max, value);
  }
  if (min > max) return;
  min_.add(min);
  max_.add(max);
  ++samples_;
}

void AverageRange::update(const Tensor& sample_batch) {
  check_sample_dtype(sample_batch, kName);
  const DefaultFloatEnvironment environment;
  const auto values = sample_batch.values<float>();
  const auto samples = sample_batch.rank() == 0 ? size_t{1} : static_cast<size_t>(sample_batch.dim(0));
  const size_t size = samples == 0 ? 0 : values.size() / samples;
  for (size_t i = 0; i < samples; ++i) add_sample(values.subspan(i * size, size));
}

void AverageRange::merge(const Collector& other) {
  const auto* same = dynamic_cast<const AverageRange*>(&other);
  DETENT_CHECK(same != nullptr && same != this && same->options_ == options_, "merging {} into {}",
               other.name(), kName);
  min_.merge(same->min_);
  max_.merge(same->max_);
  samples_ += same->samples_;
  special_.merge(same->special_);
}

Table AverageRange::result() const {
  if (samples_ == 0 && special_.nan + special_.infinity > 0) fail("{}: no finite value was seen", kName);
  if (samples_ == 0) fail("{}: no value was seen", kName);
  const auto mean = [&](const ExactSum<1>& sum) {
    return static_cast<double>(sum.value() / static_cast<Float128>(samples_));
  };
  Table table = {
      {"min", mean(min_)}, {"max", mean(max_)}, {"range", mean(max_) - mean(min_)}, {"count", samples_}};
  special_.write(table);
  return table;
}

}  // namespace detent
