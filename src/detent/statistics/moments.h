#pragma once

#include "detent/statistics/exact_sum.h"
#include "detent/statistics/per_slot.h"

// Means, variances and what follows from them. All are of the finite values: an infinity would decide them
// alone, and is counted in `infinity_count` instead. Sums are exact (exact_sum.h) and the results rounded to
// double once; there is one definition of variance, that of the population: the mean of (x - mean)^2.

namespace detent {

/// Sum and number of the finite values.
struct SumState {
  ExactSum<1> sum;
  int64_t count = 0;

  void add(float value) {
    if (std::isinf(value)) return;
    sum.add(value);
    ++count;
  }
  void merge(const SumState& other) {
    sum.merge(other.sum);
    count += other.count;
  }
  double mean() const { return static_cast<double>(sum.value() / static_cast<Float128>(count)); }
};

struct Mean {
  static constexpr const char* kName = "mean";
  static constexpr const char* kHelp = "mean of the values";
  using Options = DimsOptions;
  struct State : SumState {
    void add(float value, const Options&) { SumState::add(value); }
  };
  static Table result(const Options& options, const Reduction& reduction, const std::vector<State>& states,
                      int64_t count);
};

struct AbsMean {
  static constexpr const char* kName = "abs_mean";
  static constexpr const char* kHelp = "mean of the magnitudes";
  using Options = DimsOptions;
  struct State : SumState {
    void add(float value, const Options&) { SumState::add(std::fabs(value)); }
  };
  static Table result(const Options& options, const Reduction& reduction, const std::vector<State>& states,
                      int64_t count);
};

/// Sums of x and x^2, of values or magnitudes.
template <class OptionsType>
struct TwoMoments : SumState {
  ExactSum<2> squares;

  void add(float value, const OptionsType& options) {
    if (std::isinf(value)) return;
    if constexpr (requires { options.abs; }) value = options.abs ? std::fabs(value) : value;
    SumState::add(value);
    squares.add(value);
  }
  void merge(const TwoMoments& other) {
    SumState::merge(other);
    squares.merge(other.squares);
  }
  double variance() const {
    const auto n = static_cast<Float128>(count);
    const Float128 total = sum.value();
    const Float128 variance = (squares.value() - total * total / n) / n;
    return variance > 0 ? static_cast<double>(variance) : 0;
  }
};

/// mean, variance, count. The original has two of them, which differ in their estimator; here both names give
/// the same numbers.
struct VarianceOnline {
  static constexpr const char* kName = "variance_online";
  static constexpr const char* kHelp = "mean and population variance";
  using Options = DimsOptions;
  using State = TwoMoments<Options>;
  static Table result(const Options& options, const Reduction& reduction, const std::vector<State>& states,
                      int64_t count);
};
struct VariancePrecise : VarianceOnline {
  static constexpr const char* kName = "variance_precise";
  static constexpr const char* kHelp = "the same as variance_online";
};

/// min, max = mean -+ num_sigma * sqrt(variance), range, count.
struct RangeNSigma {
  static constexpr const char* kName = "range_n_sigma";
  static constexpr const char* kHelp = "mean plus and minus some standard deviations";
  struct Options {
    Dims dims;
    bool abs = false;
    double num_sigma = 3;
    template <class Self, class Visitor>
    static void fields(Self& self, Visitor& visit) {
      visit("dims", self.dims, "dimensions that are reduced, beside the samples");
      visit("abs", self.abs, "take the magnitudes");
      visit("num_sigma", self.num_sigma, "standard deviations on each side", Between{0, 1e6});
    }
    bool operator==(const Options&) const = default;
  };
  using State = TwoMoments<Options>;
  static Table result(const Options& options, const Reduction& reduction, const std::vector<State>& states,
                      int64_t count);
};

/// kurtosis = mean of (x - mean)^4 / variance^2 (3 for a normal distribution; 0 where all values are equal),
/// count.
struct Kurtosis {
  static constexpr const char* kName = "kurtosis";
  static constexpr const char* kHelp = "weight of the tails: 3 for a normal distribution";
  using Options = DimsOptions;
  struct State {
    ExactSum<1> sum;
    ExactSum<2> squares;
    ExactSum<3> cubes;
    ExactSum<4> fourths;
    int64_t count = 0;
    void add(float value, const Options& options);
    void merge(const State& other);
  };
  static Table result(const Options& options, const Reduction& reduction, const std::vector<State>& states,
                      int64_t count);
};

}  // namespace detent
