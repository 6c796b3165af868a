#include "detent/statistics/range_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "detent/core/error.h"
#include "detent/formats/groups/calibrating.h"

namespace detent {
namespace {

constexpr int64_t kBins = 2048;
constexpr int kFactors = 128;
constexpr double kUniformShare = 1e-4;

/// Equal bins, of which few may hold a value: those of the groups of a weight do.
struct LinearHistogram {
  double low;
  double width;
  std::vector<size_t> bins = {};  // that are not empty
  std::vector<double> counts = {};
  Distribution centres = {};  // of these; counts of 1

  LinearHistogram(const Distribution& distribution, const Interval& range);

  float centre(size_t bin) const {
    return static_cast<float>(low + (static_cast<double>(bin) + 0.5) * width);
  }
  /// The first bin whose centre is not one of these, which come first.
  template <class Predicate>
  size_t first_not(const Predicate& is_one) const {
    size_t first = 0;
    for (size_t left = kBins; left > 0;) {
      const size_t middle = first + left / 2;
      const bool is_before = is_one(centre(middle));
      first = is_before ? middle + 1 : first;
      left = is_before ? left - left / 2 - 1 : left / 2;
    }
    return first;
  }
};

LinearHistogram::LinearHistogram(const Distribution& distribution, const Interval& range)
    : low(static_cast<double>(range.low)), width((static_cast<double>(range.high) - low) / kBins) {
  for (const auto& [value, count] : distribution.bins) {
    if (value == 0 || !std::isfinite(value)) continue;
    const auto place = static_cast<int64_t>((static_cast<double>(value) - low) / width);
    const auto bin = static_cast<size_t>(std::clamp<int64_t>(place, 0, kBins - 1));
    if (bins.empty() || bins.back() != bin) {
      DETENT_CHECK(bins.empty() || bins.back() < bin, "values of a distribution in another order");
      bins.push_back(bin);
      counts.push_back(0);
      centres.bins.push_back({centre(bin), 1});
    }
    counts.back() += static_cast<double>(count);
  }
}

/// First and last bin whose centre lies in the range.
struct Kept {
  size_t first;
  size_t last;
};

std::optional<Kept> kept_bins(const LinearHistogram& histogram, const Interval& range) {
  const size_t first = histogram.first_not([&](float centre) { return centre < range.low; });
  const size_t end = histogram.first_not([&](float centre) { return centre <= range.high; });
  return first < end ? std::optional(Kept{first, end - 1}) : std::nullopt;
}

/// A bin that values lie in, or are moved into.
struct FilledBin {
  size_t bin;
  double clipped;     // values, with those beyond the range
  double spread = 0;  // its share of its level
};

/// The bins within the range. Shares of a level are equal; `levels`, one for each bin of the histogram that is
/// not empty, ascend.
std::vector<FilledBin> filled_bins(const LinearHistogram& histogram, std::span<const float> levels,
                                   const Kept& kept) {
  std::vector<FilledBin> filled = {{kept.first, 0}};
  size_t begin = 0;
  for (; begin < histogram.bins.size() && histogram.bins[begin] < kept.first; ++begin)
    filled.back().clipped += histogram.counts[begin];
  size_t end = begin;
  while (begin < histogram.bins.size() && histogram.bins[begin] <= kept.last) {
    double mass = 0;
    do {
      mass += histogram.counts[end];
      ++end;
    } while (end < histogram.bins.size() && histogram.bins[end] <= kept.last && levels[end] == levels[begin]);
    const double share = mass / static_cast<double>(end - begin);
    for (; begin < end; ++begin) {
      if (filled.back().bin != histogram.bins[begin]) filled.push_back({histogram.bins[begin], 0});
      filled.back().clipped += histogram.counts[begin];
      filled.back().spread = share;
    }
  }
  if (filled.back().bin != kept.last) filled.push_back({kept.last, 0});
  for (; end < histogram.bins.size(); ++end) filled.back().clipped += histogram.counts[end];
  return filled;
}

/// D(P || Q), infinite when no value lies within the range.
double divergence(const LinearHistogram& histogram, std::span<const float> levels, const Kept& kept) {
  double total = 0;
  double within = 0;
  for (size_t i = 0; i < histogram.bins.size(); ++i) {
    const size_t bin = histogram.bins[i];
    total += histogram.counts[i];
    within += bin >= kept.first && bin <= kept.last ? histogram.counts[i] : 0;
  }
  if (within == 0) return std::numeric_limits<double>::infinity();
  const auto kept_count = static_cast<double>(kept.last - kept.first + 1);
  double sum = 0;
  for (const FilledBin& filled : filled_bins(histogram, levels, kept)) {
    if (filled.clipped == 0) continue;
    const double p = filled.clipped / total;
    const double q = (1 - kUniformShare) * filled.spread / within + kUniformShare / kept_count;
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
  if (histogram.bins.empty()) return full;
  FormatError quantizer(histogram.centres);
  const double largest =
      widest_range_factor(format) * static_cast<double>(std::max(-widened.low, widened.high));
  LeastError<Interval> least{full};
  for (int i = kFactors; i >= 1; --i) {
    const Interval range = held_to(widened, largest * i / kFactors);
    if (!(range.low < range.high)) break;  // vanished, and so will the narrower ones
    const std::optional<Kept> kept = kept_bins(histogram, range);
    if (!kept) continue;
    const Format candidate = qparams_from_range(format, {&range, 1}, form, where);
    least.consider(range, divergence(histogram, quantizer.quantized(candidate), *kept));
  }
  return least.best;
}

}  // namespace detent
