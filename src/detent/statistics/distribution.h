#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "detent/formats/float_bits.h"

namespace detent {

/// The finite values of one tensor or channel, as calibration knows them. Parts that were not collected are
/// absent.
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

  /// Distribution of values that are all there; those that are not finite are left out.
  static Distribution of(std::span<const float> values);
  /// The same without bins and moments, which take sorting: the range alone.
  static Distribution range_of(std::span<const float> values);
  /// Distribution of all their values together; parts that one of them lacks are absent. The mean of several
  /// average ranges is not known: it is absent unless there is just one distribution. `intervals` is the
  /// smallest.
  static Distribution merged(std::span<const Distribution> parts);
};

}  // namespace detent
