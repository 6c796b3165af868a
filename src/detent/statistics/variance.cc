#include "detent/statistics/statistic.h"

namespace detent {
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

}  // namespace detent
