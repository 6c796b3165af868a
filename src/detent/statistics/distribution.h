#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/formats/float_bits.h"

namespace detent {

/// Distribution of the finite values of a tensor or channel for calibration. Parts that were not collected
/// are absent.
struct Distribution {
  struct Bin {
    float value;    // stands for all values of the bin
    int64_t count;  // above 0

    bool operator==(const Bin&) const = default;
  };

  std::vector<Bin> bins;  // ascending, all values different
  /// When the bins are equal intervals: how many there were between the smallest and the largest value.
  std::optional<int64_t> intervals;
  std::optional<Interval> range;  // smallest and largest value
  std::optional<double> mean;
  std::optional<double> variance;         // population
  std::optional<Interval> average_range;  // means over the samples of each one's smallest and largest value

  int64_t count() const;

  /// Distribution of given values; those that are not finite are ignored.
  static Distribution of(std::span<const float> values);
  /// The same without bins and moments, which need sorting: the range alone.
  static Distribution range_of(std::span<const float> values);
  /// Distribution of all their values together; parts that one of them lacks are absent. The mean of several
  /// average ranges is not known: it is absent unless there is just one distribution. `intervals` is the
  /// smallest.
  static Distribution merged(std::span<const Distribution> parts);
};

/// Distributions from the results of an operand's statistics: one, or one for each kept position in
/// row-major order. `results` is a table of statistic name -> result; range_min_max gives the
/// range, variance_precise or variance_online mean and variance, average_range the average range, histogram
/// the bins (each stands for its middle, one that holds 0 for 0). Others are passed over.
/// Throws Error, beginning with `where`, on results that are not as the statistics give them, and on those
/// that keep different positions.
std::vector<Distribution> distributions_of_results(const Table& results, const std::string& where);

}  // namespace detent
