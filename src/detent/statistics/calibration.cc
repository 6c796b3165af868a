#include "detent/statistics/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/core/value.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/kernel_environment.h"
#include "detent/statistics/range_search.h"
namespace detent {
namespace {

void check_known(bool is_known, Calibrator calibrator, const char* statistic, const std::string& where) {
  if (!is_known)
    fail("{}: calibrator \"{}\" needs the statistic {}", where, enum_name(calibrator), statistic);
}

/// `part`, or an Error that says which statistic gives it.
template <class T>
const T& needed(const std::optional<T>& part, Calibrator calibrator, const std::string& where) {
  check_known(part.has_value(), calibrator, statistic_of(calibrator), where);
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

/// A search needs bins that are finer than the format's steps: eight of them, or 2048 bins. One interval
/// holds values that are all equal.
void check_resolution(const Format& format, const Distribution& distribution, Calibrator calibrator,
                      const std::string& where) {
  const double steps = std::exp2(std::min(bits_per_value(format), 8.0));
  const auto needed_intervals = static_cast<int64_t>(8 * steps);
  const std::optional<int64_t>& intervals = distribution.intervals;
  if (!intervals || *intervals == 1 || *intervals >= needed_intervals) return;
  fail(
      "{}: calibrator \"{}\": the histogram has {} bins, expected at least {} for {}: collect it with bins = "
      "{}",
      where, enum_name(calibrator), *intervals, needed_intervals, format_name(format), needed_intervals);
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
  const Calibrator calibrator = options.calibrator;
  const auto range = [&] {
    check_known(distribution.range.has_value(), calibrator, statistic_of(Calibrator::kMinMax), where);
    return *distribution.range;
  };
  const auto check_bins = [&] {
    check_known(!distribution.bins.empty(), calibrator, statistic_of(calibrator), where);
  };
  // Blocks follow their values by scales of their own: what the tensor's is to hold is all.
  if (block_size(format)) return range();
  switch (calibrator) {
    case Calibrator::kMinMax:
      return range();
    case Calibrator::kPercentile:
      check_bins();
      return percentile_range(distribution, options.percentile);
    case Calibrator::kAverageRange:
      return needed(distribution.average_range, calibrator, where);
    case Calibrator::kNSigma:
      return n_sigma_range(needed(distribution.mean, calibrator, where),
                           needed(distribution.variance, calibrator, where), options.num_sigma, range());
    case Calibrator::kMse:
      check_bins();
      check_resolution(format, distribution, calibrator, where);
      return least_error_range(format, distribution, range(), options.scale_form, where);
    case Calibrator::kEntropy:
      check_bins();
      check_resolution(format, distribution, calibrator, where);
      return least_divergence_range(format, distribution, range(), options.scale_form, where);
  }
  DETENT_CHECK(false, "calibrator {}", static_cast<int>(calibrator));
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
    check_known(!all.bins.empty(), options.calibrator, statistic_of(options.calibrator), where);
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

/// Weights are as one sample.
Distribution distribution_for(Calibrator calibrator, std::span<const float> values) {
  const bool has_range_alone = calibrator == Calibrator::kMinMax || calibrator == Calibrator::kAverageRange;
  Distribution distribution = has_range_alone ? Distribution::range_of(values) : Distribution::of(values);
  if (calibrator == Calibrator::kAverageRange) distribution.average_range = distribution.range;
  return distribution;
}

void check_weights_are_finite(std::span<const float> values, const std::string& where) {
  const auto not_finite = std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
  if (not_finite == 0) return;
  fail("{}: {} of {} values are NaN or infinite (`detent quantize --keep-float NODE` leaves a node in float)",
       where, not_finite, values.size());
}

}  // namespace

const char* statistic_of(Calibrator calibrator) {
  switch (calibrator) {
    case Calibrator::kMinMax:
      return "range_min_max";
    case Calibrator::kAverageRange:
      return "average_range";
    case Calibrator::kNSigma:
      return "variance_precise";
    case Calibrator::kPercentile:
    case Calibrator::kMse:
    case Calibrator::kEntropy:
      return "histogram";
  }
  DETENT_CHECK(false, "calibrator {}", static_cast<int>(calibrator));
  return nullptr;
}

void check_calibration(const CalibrationOptions& options, std::span<const Calibrator> others,
                       const std::string& where) {
  const CalibrationOptions usual;
  const auto check_key = [&](const char* key, double given, double otherwise, Calibrator reader) {
    const bool is_read = options.calibrator == reader || std::ranges::find(others, reader) != others.end();
    if (given == otherwise || is_read) return;
    fail("{}: key \"{}\": got {}, which only calibrator = \"{}\" reads", where, key, given,
         enum_name(reader));
  };
  check_key("percentile", options.percentile, usual.percentile, Calibrator::kPercentile);
  check_key("num_sigma", options.num_sigma, usual.num_sigma, Calibrator::kNSigma);
}

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

std::vector<Distribution> weight_distributions(const Tensor& weight, const QuantSpec& spec,
                                               Calibrator calibrator, const std::string& where) {
  check_weights_are_finite(weight.values<float>(), where);
  if (spec.granularity == Granularity::kTensor) return {distribution_for(calibrator, weight.values<float>())};
  std::vector<Distribution> parts;
  for (const auto& group : values_by_group(weight.values<float>(), make_grouping(spec, weight.shape())))
    parts.push_back(distribution_for(calibrator, group));
  return parts;
}

}  // namespace detent
