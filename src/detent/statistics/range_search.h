#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/format.h"
#include "detent/formats/threshold.h"
#include "detent/statistics/distribution.h"

namespace detent {

/// Keeps the first candidate of least error; a NaN error is never the least.
template <class Candidate>
struct LeastError {
  Candidate best;
  double error = std::numeric_limits<double>::infinity();

  bool consider(const Candidate& candidate, double of_candidate) {
    if (!(of_candidate < error)) return false;
    best = candidate;
    error = of_candidate;
    return true;
  }
};

/// Effect of a format on a distribution.
class FormatError {
 public:
  /// `distribution` is not empty and must outlive this.
  explicit FormatError(const Distribution& distribution);

  /// Sum over all values of (x - quantized x)^2. A scale that the data give (is_scaled_by_data) derives from
  /// the whole distribution.
  double squared(const Format& format);
  /// Quantized value of each bin, without a data-dependent scale.
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

/// The range `full` held to magnitudes up to i/128 of its largest one, i = 1 .. 128, for which quantizing
/// loses least information (Migacz 2017, "8-bit Inference with TensorRT"): the smallest Kullback-Leibler
/// divergence D(P || Q) over 2048 equal bins of `full` widened to hold 0. P are the values, those beyond the
/// range moved into its outermost bins; Q are the values within the range, each level's share spread evenly
/// over its bins that are not empty. Here levels are what the format makes of the bins' centres, so that they
/// need not be equally wide, and Q is mixed with 1e-4 of the uniform distribution, so that bins which only
/// the moved values fill have a finite cost. Zeros have no part in it: formats hold them exactly, and the
/// many that a ReLU gives would outweigh all else (TensorRT leaves them out as well). Of equal divergences,
/// the wider range. Values that repeat often elsewhere (the background of images) remain a weakness of the
/// method: it may place an end of the range on them.
Interval least_divergence_range(const Format& format, const Distribution& distribution, const Interval& full,
                                ScaleForm form, const std::string& where);

/// Range of the codes for the threshold.
struct CodeRange {
  double low = -127;
  double high = 127;
};

/// Threshold of elements that share a scale; 0 if all are 0. `argument`: percentile or sigma. NaN and
/// infinities are ignored; the caller reports them.
double find_threshold(Threshold kind, double argument, std::span<const float> values, const CodeRange& codes);

/// The k-th smallest value, k = ceil(percentile / 100 * n) counted from 1, but at most 0;
/// of the finite ones, 0 where there is none.
double low_percentile(double percentile, std::span<const float> values);

}  // namespace detent
