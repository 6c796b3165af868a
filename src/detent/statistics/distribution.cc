#include "detent/statistics/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace detent {
namespace {

struct Moments {
  double mean;
  double variance;
};

/// Moments of the union of groups with known counts and moments.
Moments moments_of(std::span<const Distribution> parts) {
  double count = 0;
  double sum = 0;
  for (const Distribution& part : parts) {
    count += static_cast<double>(part.count());
    sum += static_cast<double>(part.count()) * *part.mean;
  }
  const double mean = sum / count;
  double squares = 0;
  for (const Distribution& part : parts) {
    const double distance = *part.mean - mean;
    squares += static_cast<double>(part.count()) * (*part.variance + distance * distance);
  }
  return {mean, squares / count};
}

}  // namespace

int64_t Distribution::count() const {
  int64_t count = 0;
  for (const Bin& bin : bins) count += bin.count;
  return count;
}

Distribution Distribution::of(std::span<const float> values) {
  std::vector<float> finite;
  std::ranges::copy_if(values, std::back_inserter(finite), [](float x) { return std::isfinite(x); });
  std::ranges::sort(finite);
  Distribution result;
  double sum = 0;
  for (const float value : finite) {
    sum += static_cast<double>(value);
    if (result.bins.empty() || result.bins.back().value != value) result.bins.push_back({value, 0});
    ++result.bins.back().count;
  }
  if (finite.empty()) return result;
  const auto count = static_cast<double>(finite.size());
  double squares = 0;
  for (const auto& [value, times] : result.bins) {
    const double distance = static_cast<double>(value) - sum / count;
    squares += static_cast<double>(times) * distance * distance;
  }
  result.range = {finite.front(), finite.back()};
  result.mean = sum / count;
  result.variance = squares / count;
  return result;
}

Distribution Distribution::range_of(std::span<const float> values) {
  Distribution result;
  Interval seen{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    seen = {std::min(seen.low, value), std::max(seen.high, value)};
  }
  if (seen.low <= seen.high) result.range = seen;
  return result;
}

Distribution Distribution::merged(std::span<const Distribution> parts) {
  if (parts.size() == 1) return parts.front();
  Distribution result;
  std::map<float, int64_t> counts;
  for (const Distribution& part : parts) {
    for (const auto& [value, count] : part.bins) counts[value] += count;
  }
  for (const auto& [value, count] : counts) result.bins.push_back({value, count});
  for (const Distribution& part : parts) {
    if (part.intervals)
      result.intervals = std::min(result.intervals.value_or(*part.intervals), *part.intervals);
  }

  const auto all_have = [&](auto member) {
    return !parts.empty() &&
           std::ranges::all_of(parts, [&](const Distribution& part) { return (part.*member).has_value(); });
  };
  if (all_have(&Distribution::range)) {
    result.range = parts.front().range;
    for (const Distribution& part : parts) {
      result.range = {std::min(result.range->low, part.range->low),
                      std::max(result.range->high, part.range->high)};
    }
  }
  if (all_have(&Distribution::mean) && all_have(&Distribution::variance) && result.count() > 0) {
    const auto [mean, variance] = moments_of(parts);
    result.mean = mean;
    result.variance = variance;
  }
  return result;
}

}  // namespace detent
