#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace detent {

/// How training chooses the magnitude that a tensor's largest code stands for.
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
