#include "detent/statistics/statistic.h"

namespace detent {
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

}  // namespace detent
