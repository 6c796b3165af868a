#include "detent/statistics/statistic.h"

namespace detent {
namespace {

/// mean of the finite values, count.
struct Mean : DimsOption {
  static constexpr const char* kName = "mean";
  static constexpr const char* kHelp = "mean of the values";

  Needs needs() const { return {.sums = true}; }
  Table result(const Accumulators& data) const {
    check_finite(data, kName);
    const auto mean = [&](size_t slot) { return data.mean(slot, false); };
    return {{"mean", shaped(data, mean)}, {"count", data.elements_per_slot()}};
  }
};

}  // namespace

StatisticInfo mean_statistic() { return statistic_info<Mean>(); }

namespace {

/// abs_mean: mean magnitude of the finite values; count.
struct AbsMean : DimsOption {
  static constexpr const char* kName = "abs_mean";
  static constexpr const char* kHelp = "mean of the magnitudes";

  Needs needs() const { return {.sums = true}; }
  Table result(const Accumulators& data) const {
    check_finite(data, kName);
    const auto mean = [&](size_t slot) { return data.mean(slot, true); };
    return {{"abs_mean", shaped(data, mean)}, {"count", data.elements_per_slot()}};
  }
};

}  // namespace

StatisticInfo abs_mean_statistic() { return statistic_info<AbsMean>(); }

namespace {

/// mean, variance, count. The original has two of them, which differ in their estimator; here both names give
/// the same numbers: the population's variance.
struct VarianceOnline : DimsOption {
  static constexpr const char* kName = "variance_online";
  static constexpr const char* kHelp = "mean and population variance";

  Needs needs() const { return {.sums = true}; }
  Table result(const Accumulators& data) const {
    check_finite(data, kName);
    const auto mean = [&](size_t slot) { return data.mean(slot, false); };
    const auto variance = [&](size_t slot) { return data.variance(slot, false); };
    return {{"mean", shaped(data, mean)},
            {"variance", shaped(data, variance)},
            {"count", data.elements_per_slot()}};
  }
};

struct VariancePrecise : VarianceOnline {
  static constexpr const char* kName = "variance_precise";
  static constexpr const char* kHelp = "the same as variance_online";
};

}  // namespace

StatisticInfo variance_online_statistic() { return statistic_info<VarianceOnline>(); }
StatisticInfo variance_precise_statistic() { return statistic_info<VariancePrecise>(); }

namespace {

/// kurtosis = mean of (x - mean)^4 / variance^2 (3 for a normal distribution; 0 where all values are equal),
/// count.
struct Kurtosis : DimsOption {
  static constexpr const char* kName = "kurtosis";
  static constexpr const char* kHelp = "weight of the tails: 3 for a normal distribution";

  Needs needs() const { return {.sums = true, .higher_sums = true}; }
  Table result(const Accumulators& data) const {
    check_finite(data, kName);
    const auto kurtosis = [&](size_t slot) {
      return data.higher_sums(slot).kurtosis(data.sums(slot), data.extremes(slot).finite());
    };
    return {{"kurtosis", shaped(data, kurtosis)}, {"count", data.elements_per_slot()}};
  }
};

}  // namespace

StatisticInfo kurtosis_statistic() { return statistic_info<Kurtosis>(); }

namespace {

/// zero_share = zeros (of either sign) / count, count.
struct ZeroShare : DimsOption {
  static constexpr const char* kName = "zero_share";
  static constexpr const char* kHelp = "share of the values that are zero";

  Needs needs() const { return {}; }
  Table result(const Accumulators& data) const {
    const auto count = static_cast<double>(data.elements_per_slot());
    const auto share = [&](size_t slot) { return static_cast<double>(data.extremes(slot).zeros()) / count; };
    return {{"zero_share", shaped(data, share)}, {"count", data.elements_per_slot()}};
  }
};

}  // namespace

StatisticInfo zero_share_statistic() { return statistic_info<ZeroShare>(); }

}  // namespace detent
