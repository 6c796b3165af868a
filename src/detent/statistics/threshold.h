#pragma once

#include <cstdint>
#include <span>

#include "detent/formats/threshold.h"

namespace detent {

/// Ends of the codes that the threshold is for.
struct CodeRange {
  double low = -127;
  double high = 127;
};

/// Threshold of elements that share a scale; 0 where all are 0. `argument`: percentile or sigma. NaN and
/// infinities are left out: a network that computes them is told of by what runs it.
double find_threshold(Threshold kind, double argument, std::span<const float> values, const CodeRange& codes);

/// The k-th smallest value, k = ceil(percentile / 100 * n) counted from 1, but at most 0;
/// of the finite ones, 0 where there is none.
double low_percentile(double percentile, std::span<const float> values);

}  // namespace detent
