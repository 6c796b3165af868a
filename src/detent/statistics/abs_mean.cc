#include "detent/statistics/statistic.h"

namespace detent {
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

}  // namespace detent
