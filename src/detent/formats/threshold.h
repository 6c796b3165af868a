#pragma once

#include <array>

namespace detent {

/// How training chooses the value of a tensor's largest code.
enum class Threshold {
  kMax,              // the largest |x|
  kMean,             // the mean |x|
  kMeanSigma,        // mean |x| + argument * its standard deviation (unbiased; 1e-8 added to the variance)
  kPercentile,       // the k-th smallest |x|, k = floor(argument / 100 * n + 1/2), counted from 1
  kRange,            // max(x, 0) - min(x, 0)
  kPercentileRange,  // the same between the percentiles `argument` and 100 - argument of x
  kLearnedStep,      // 2 mean |x| sqrt(largest code): the scale is that of LSQ's beginning
  kSquaredError,     // of max * i / 20, i = 2 ... 20, what loses least, the larger where two lose alike
  kMeanOfMaxima,     // the largest |x| of each channel, averaged; of values of one channel kMax
};
constexpr std::array<const char*, 9> enum_names(Threshold) {
  return {"max",          "mean",          "mean_sigma",    "percentile", "range", "percentile_range",
          "learned_step", "squared_error", "mean_of_maxima"};
}

}  // namespace detent
