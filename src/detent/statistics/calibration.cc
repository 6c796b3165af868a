#include "detent/statistics/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/core/value.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/formats/kernel_environment.h"
#include "detent/statistics/range_search.h"

namespace detent {
namespace {

/// `part`, or an Error that says which statistic gives it.
template <class T>
const T& needed(const std::optional<T>& part, const CalibrationOptions& options, const char* statistic,
                const std::string& where) {
  if (!part) {
    fail("{}: calibrator \"{}\" needs the statistic {}", where,
         enum_names(options.calibrator)[static_cast<size_t>(options.calibrator)], statistic);
  }
  return *part;
}

/// The value at `rank` of the sorted values, counted from 0.
float order_statistic(const Distribution& distribution, int64_t rank) {
  int64_t before = 0;
  for (const auto& [value, count] : distribution.bins) {
    before += count;
    if (rank < before) return value;
  }
  DETENT_CHECK(false, "rank {} of {} values", rank, before);
}

Interval percentile_range(const Distribution& distribution, double percentile) {
  const int64_t count = distribution.count();
  const double rank = percentile / 100 * static_cast<double>(count - 1);
  const int64_t high = std::min(static_cast<int64_t>(std::ceil(rank)), count - 1);
  return {order_statistic(distribution, count - 1 - high), order_statistic(distribution, high)};
}

Interval n_sigma_range(double mean, double variance, double num_sigma, const Interval& seen) {
  const double reach = num_sigma * std::sqrt(variance);
  const auto within_seen = [&](double end) {
    return static_cast<float>(std::clamp(end, static_cast<double>(seen.low), static_cast<double>(seen.high)));
  };
  return {within_seen(mean - reach), within_seen(mean + reach)};
}

void check_bins(const Distribution& distribution, const CalibrationOptions& options,
                const std::string& where) {
  if (!distribution.bins.empty()) return;
  fail("{}: calibrator \"{}\" needs the statistic histogram", where,
       enum_names(options.calibrator)[static_cast<size_t>(options.calibrator)]);
}

/// A search needs bins that are finer than the format's steps: eight of them, or 2048 bins. One interval
/// holds values that are all equal.
void check_resolution(const Format& format, const Distribution& distribution,
                      const CalibrationOptions& options, const std::string& where) {
  check_bins(distribution, options, where);
  const double steps = std::exp2(std::min(bits_per_value(format), 8.0));
  const auto needed_intervals = static_cast<int64_t>(8 * steps);
  const std::optional<int64_t>& intervals = distribution.intervals;
  if (!intervals || *intervals == 1 || *intervals >= needed_intervals) return;
  fail(
      "{}: calibrator \"{}\": the histogram has {} bins, expected at least {} for {}: collect it with bins = "
      "{}",
      where, enum_names(options.calibrator)[static_cast<size_t>(options.calibrator)], *intervals,
      needed_intervals, format_name(format), needed_intervals);
}

Format fitted_to(const Format& format, const Distribution& distribution) {
  std::vector<float> values;
  std::vector<int64_t> counts;
  for (const auto& [value, count] : distribution.bins) {
    values.push_back(value);
    counts.push_back(count);
  }
  return fitted(format, {values, counts});
}

Interval chosen_range(const Format& format, const Distribution& distribution,
                      const CalibrationOptions& options, const std::string& where) {
  const auto range = [&] { return needed(distribution.range, options, "range_min_max", where); };
  // Blocks follow their values by scales of their own: what the tensor's is to hold is all.
  if (block_size(format)) return range();
  switch (options.calibrator) {
    case Calibrator::kMinMax:
      return range();
    case Calibrator::kPercentile:
      check_bins(distribution, options, where);
      return percentile_range(distribution, options.percentile);
    case Calibrator::kAverageRange:
      return needed(distribution.average_range, options, "average_range", where);
    case Calibrator::kNSigma:
      return n_sigma_range(needed(distribution.mean, options, "variance_precise", where),
                           needed(distribution.variance, options, "variance_precise", where),
                           options.num_sigma, range());
    case Calibrator::kMse:
      check_resolution(format, distribution, options, where);
      return least_error_range(format, distribution, range(), options.scale_form, where);
    case Calibrator::kEntropy:
      check_resolution(format, distribution, options, where);
      return least_divergence_range(format, distribution, range(), options.scale_form, where);
  }
  DETENT_CHECK(false, "calibrator {}", static_cast<int>(options.calibrator));
}

Format calibrated(const Format& format, std::span<const Distribution> parts,
                  const CalibrationOptions& options, const std::string& where) {
  const bool fits = is_fitted(format) && options.calibrator == Calibrator::kMse;
  if (is_fitted(format) && !fits && !is_ranged(format)) {
    fail("{}: {} has no range: expected calibrator \"mse\", which fits it to the values", where,
         format_name(format));
  }
  if (fits) {
    const Distribution all = Distribution::merged(parts);
    check_bins(all, options, where);
    return fitted_to(format, all);
  }
  std::vector<Interval> ranges;
  if (has_range_per_channel(format)) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string place = parts.size() == 1 ? where : fmt::format("{}: channel {}", where, i);
      ranges.push_back(clipping_range(format, parts[i], options, place));
    }
  } else {
    ranges.push_back(clipping_range(format, Distribution::merged(parts), options, where));
  }
  return qparams_from_range(format, ranges, options.scale_form, where);
}

}  // namespace

Interval clipping_range(const Format& format, const Distribution& distribution,
                        const CalibrationOptions& options, const std::string& where) {
  const DefaultFloatEnvironment environment;
  const Interval range = chosen_range(format, distribution, options, where);
  if (std::isfinite(range.low) && std::isfinite(range.high) && range.low <= range.high) return range;
  fail("{}: the range is [{}, {}], expected finite numbers: look for NaN and infinities in the data", where,
       float_text(static_cast<double>(range.low)), float_text(static_cast<double>(range.high)));
}

QuantSpec calibrate(const QuantSpec& spec, std::span<const Distribution> parts,
                    const CalibrationOptions& options, const std::string& where) {
  DETENT_CHECK(!parts.empty(), "{}: no distributions", where);
  const DefaultFloatEnvironment environment;
  QuantSpec result = spec;
  result.format = calibrated(spec.format, parts, options, where);
  validate(result, where);
  return result;
}

}  // namespace detent
