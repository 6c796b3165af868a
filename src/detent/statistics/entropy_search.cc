#include "detent/statistics/range_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/formats/groups/calibrating.h"

namespace detent {
namespace {

constexpr int64_t kBins = 2048;
constexpr int kFactors = 128;
constexpr double kUniformShare = 1e-4;

/// Equal bins, and the centre of each.
struct LinearHistogram {
  std::vector<double> counts;
  Distribution centres;  // of the same bins; counts of 1

  LinearHistogram(const Distribution& distribution, const Interval& range);
};

LinearHistogram::LinearHistogram(const Distribution& distribution, const Interval& range)
    : counts(static_cast<size_t>(kBins)) {
  const auto low = static_cast<double>(range.low);
  const double width = (static_cast<double>(range.high) - low) / kBins;
  for (const auto& [value, count] : distribution.bins) {
    if (value == 0 || !std::isfinite(value)) continue;
    const auto bin = static_cast<int64_t>((static_cast<double>(value) - low) / width);
    counts[static_cast<size_t>(std::clamp<int64_t>(bin, 0, kBins - 1))] += static_cast<double>(count);
  }
  for (int64_t i = 0; i < kBins; ++i) {
    centres.bins.push_back({static_cast<float>(low + (static_cast<double>(i) + 0.5) * width), 1});
  }
}

/// First and last bin whose centre lies in the range.
struct Kept {
  size_t first;
  size_t last;
};

Kept kept_bins(const std::vector<Distribution::Bin>& centres, const Interval& range) {
  const auto inside = [&](const Distribution::Bin& bin) {
    return bin.value >= range.low && bin.value <= range.high;
  };
  const auto first = std::ranges::find_if(centres, inside);
  if (first == centres.end()) return {1, 0};
  const auto last = std::find_if_not(first, centres.end(), inside) - 1;
  return {static_cast<size_t>(first - centres.begin()), static_cast<size_t>(last - centres.begin())};
}

/// For each bin in [kept.first, kept.last]: the share of its level, spread over the level's bins that are not
/// empty. `levels` ascends.
std::vector<double> spread_levels(const std::vector<double>& counts, std::span<const float> levels,
                                  const Kept& kept) {
  std::vector<double> spread(counts.size());
  for (size_t begin = kept.first; begin <= kept.last;) {
    size_t end = begin;
    double mass = 0;
    double filled = 0;
    for (; end <= kept.last && levels[end] == levels[begin]; ++end) {
      mass += counts[end];
      filled += counts[end] > 0 ? 1 : 0;
    }
    for (; begin < end; ++begin) spread[begin] = counts[begin] > 0 ? mass / filled : 0;
  }
  return spread;
}

/// D(P || Q), infinite when no value lies within the range.
double divergence(const std::vector<double>& counts, std::span<const float> levels, const Kept& kept) {
  std::vector<double> clipped(counts.size());
  double total = 0;
  double within = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    clipped[std::clamp(i, kept.first, kept.last)] += counts[i];
    total += counts[i];
    within += i >= kept.first && i <= kept.last ? counts[i] : 0;
  }
  if (within == 0) return std::numeric_limits<double>::infinity();
  const std::vector<double> spread = spread_levels(counts, levels, kept);
  const auto kept_count = static_cast<double>(kept.last - kept.first + 1);
  double sum = 0;
  for (size_t i = kept.first; i <= kept.last; ++i) {
    if (clipped[i] == 0) continue;
    const double p = clipped[i] / total;
    const double q = (1 - kUniformShare) * spread[i] / within + kUniformShare / kept_count;
    sum += p * std::log(p / q);
  }
  return sum;
}

}  // namespace

Interval least_divergence_range(const Format& format, const Distribution& distribution, const Interval& full,
                                ScaleForm form, const std::string& where) {
  const Interval widened{std::min(full.low, 0.0F), std::max(full.high, 0.0F)};
  if (!(widened.low < widened.high)) return full;
  const LinearHistogram histogram(distribution, widened);
  FormatError quantizer(histogram.centres);
  const double largest =
      widest_range_factor(format) * static_cast<double>(std::max(-widened.low, widened.high));
  LeastError<Interval> least{full};
  for (int i = kFactors; i >= 1; --i) {
    const Interval range = held_to(widened, largest * i / kFactors);
    if (!(range.low < range.high)) break;  // vanished, and so will the narrower ones
    const Kept kept = kept_bins(histogram.centres.bins, range);
    if (kept.first > kept.last) continue;
    const Format candidate = qparams_from_range(format, {&range, 1}, form, where);
    least.consider(range, divergence(histogram.counts, quantizer.quantized(candidate), kept));
  }
  return least.best;
}

}  // namespace detent
