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

}  // namespace detent
