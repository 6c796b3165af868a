#include "detent/statistics/range_quantile.h"

#include <algorithm>
#include <cmath>

#include "detent/formats/float_environment.h"

namespace detent {
namespace {

/// Between two order statistics a <= b; t in [0, 1). Equal values come first: the difference of infinities is
/// NaN.
float interpolate(float a, float b, float t) {
  if (a == b || t == 0) return a;
  return t < 0.5F ? a + t * (b - a) : b - (b - a) * (1.0F - t);
}

struct Rank {
  size_t below;
  float beyond;  // of the way to the next value
};

Rank rank_of(size_t count, double q) {
  constexpr size_t kFloatIntegers = size_t{1} << 24;
  if (count <= kFloatIntegers) {
    const float rank = static_cast<float>(q) * static_cast<float>(count - 1);
    const float below = std::floor(rank);
    return {static_cast<size_t>(below), rank - below};
  }
  const double rank = q * static_cast<double>(count - 1);
  const double below = std::floor(rank);
  return {static_cast<size_t>(below), static_cast<float>(rank - below)};
}

}  // namespace

float quantile_of(std::vector<float>& values, double q) {
  DETENT_CHECK(!values.empty() && q >= 0 && q <= 1, "quantile {} of {} values", q, values.size());
  const auto [below, beyond] = rank_of(values.size(), q);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), at, values.end());
  return at + 1 == values.end() ? *at : interpolate(*at, *std::min_element(at + 1, values.end()), beyond);
}

void RangeQuantile::update(const Tensor& sample_batch) {
  check_sample_dtype(sample_batch, kName);
  reduction_.accept(sample_batch);
  values_.resize(reduction_.slots());
  int64_t position = 0;
  for (const float value : sample_batch.values<float>()) {
    if (std::isnan(value)) {
      ++special_.nan;
    } else {
      special_.infinity += std::isinf(value) ? 1 : 0;
      values_[reduction_.slot(position)].push_back(options_.abs ? std::fabs(value) : value);
    }
    if (!options_.dims.all && ++position == reduction_.sample_size()) position = 0;
  }
  elements_ += sample_batch.numel();
}

void RangeQuantile::merge(const Collector& other) {
  const auto* same = dynamic_cast<const RangeQuantile*>(&other);
  DETENT_CHECK(same != nullptr && same != this && same->options_ == options_, "merging {} into {}",
               other.name(), kName);
  reduction_.accept(same->reduction_);
  values_.resize(reduction_.slots());
  for (size_t slot = 0; slot < same->values_.size(); ++slot) {
    values_[slot].insert(values_[slot].end(), same->values_[slot].begin(), same->values_[slot].end());
  }
  special_.merge(same->special_);
  elements_ += same->elements_;
}

Table RangeQuantile::result() const {
  if (elements_ == 0) fail("{}: no value was seen", kName);
  const DefaultFloatEnvironment environment;
  std::vector<float> min;
  std::vector<float> max;
  for (const std::vector<float>& seen : values_) {
    if (seen.empty())
      fail("{}: only NaN was seen at kept position {} of {}", kName, min.size(), values_.size());
    std::vector<float> values = seen;
    min.push_back(quantile_of(values, 1.0 - options_.quantile));
    max.push_back(quantile_of(values, options_.quantile));
  }
  Table table = range_table(reduction_, min, max, elements_ / static_cast<int64_t>(reduction_.slots()));
  special_.write(table);
  return table;
}

}  // namespace detent
