#pragma once

#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/format.h"
#include "detent/statistics/distribution.h"

namespace detent {

/// What a format does to the values of a distribution.
class FormatError {
 public:
  /// `distribution` has values and must outlive this.
  explicit FormatError(const Distribution& distribution);

  /// Sum over all values of (x - quantized x)^2. The scale of a scaled ternary is the mean of |x| above its
  /// threshold, over the whole distribution.
  double squared(const Format& format);
  /// Each bin's value, quantized; of a scaled ternary, its sign.
  std::span<const float> quantized(const Format& format);

 private:
  const Distribution& distribution_;
  Tensor values_;
  Tensor quantized_;
};

/// The range within `full` for which the format of `covering` has the least squared error: magnitudes held to
/// limits from the largest one down by 20 octaves in steps of 2^(-1/8), then finer ones around the best, then
/// each end moved alone. Of equal errors, the one found first: the wider range.
Interval least_error_range(const Format& format, const Distribution& distribution, const Interval& full,
                           ScaleForm form, const std::string& where);

/// `full` without what is beyond +-magnitude; widened to it where magnitude is larger.
Interval held_to(const Interval& full, double magnitude);

/// How far beyond the range of the data it makes sense to search: 20 for ternary, whose threshold is 0.05 *
/// max, else 1.
double widest_factor(const Format& format);

}  // namespace detent
