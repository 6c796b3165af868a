#include "detent/statistics/accumulated_distribution.h"

#include <algorithm>

#include "detent/formats/float_environment.h"

namespace detent {
namespace {

std::vector<Distribution::Bin> bins_of(const std::vector<ValueBin>& gathered, const Extremes& extremes) {
  std::vector<Distribution::Bin> bins;
  for (const ValueBin& bin : gathered) {
    const float middle = bin.lower + (bin.upper - bin.lower) / 2;
    bins.push_back({std::clamp(middle, extremes.finite_min(), extremes.finite_max()), bin.count});
  }
  return bins;
}

}  // namespace

Distribution distribution_of(const Accumulators& data, size_t slot) {
  const DefaultFloatEnvironment environment;
  const Extremes& extremes = data.extremes(slot);
  const Needs& gathered = data.needs();
  Distribution result;
  if (extremes.count() > extremes.nan()) result.range = {extremes.min(), extremes.max()};
  if (extremes.finite() == 0) return result;
  if (gathered.values) result.bins = bins_of(data.bins(slot, *gathered.values, false), extremes);
  if (gathered.sums || gathered.higher_sums) {
    result.mean = data.mean(slot, false);
    result.variance = data.variance(slot, false);
  }
  if (gathered.sample_ranges) {
    const SampleRangeSums& samples = data.sample_ranges(slot);
    result.average_range = {static_cast<float>(samples.mean_min(false)),
                            static_cast<float>(samples.mean_max(false))};
  }
  return result;
}

}  // namespace detent
