#pragma once

#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/format.h"
#include "detent/statistics/distribution.h"

namespace detent {

/// Effect of a format on the values of a distribution.
class FormatError {
 public:
  /// `distribution` has values and must outlive this.
  explicit FormatError(const Distribution& distribution);

  /// Sum over all values of (x - quantized x)^2. A scale that the data give (is_scaled_by_data) derives from
  /// the whole distribution.
  double squared(const Format& format);
  /// Each bin's value, quantized, without a scale that the data give.
  std::span<const float> quantized(const Format& format);

 private:
  const Distribution& distribution_;
  Tensor values_;
  Tensor quantized_;
};

/// The range within `full`, widened to hold 0, for which the format of `qparams_from_range` has the least
/// squared error: limits of magnitudes from the largest one down by 20 octaves in steps of 2^(-1/8), then
/// finer ones around the best, then each end alone. Of equal errors, the first found: the wider range.
Interval least_error_range(const Format& format, const Distribution& distribution, const Interval& full,
                           ScaleForm form, const std::string& where);

/// `full`, which holds 0, without what is beyond +-magnitude; widened to it where magnitude is larger.
Interval held_to(const Interval& full, double magnitude);

}  // namespace detent
