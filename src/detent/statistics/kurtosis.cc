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
    return {{"kurtosis", shaped(data, [&](size_t slot) { return kurtosis_of(data, slot); })},
            {"count", data.elements_per_slot()}};
  }

  // With m the mean: sum (x - m)^4 = S4 - 4 m S3 + 6 m^2 S2 - 3 n m^4.
  static double kurtosis_of(const Accumulators& data, size_t slot) {
    const auto n = static_cast<Float128>(data.extremes(slot).finite());
    const Float128 mean = data.sums(slot).sum(false) / n;
    const Float128 squares = data.sums(slot).square_sum();
    const Float128 variance = squares / n - mean * mean;
    if (!(variance > 0)) return 0.0;
    const HigherPowerSums& higher = data.higher_sums(slot);
    const Float128 fourth =
        (higher.fourth_sum() - 4 * mean * higher.cube_sum() + 6 * mean * mean * squares) / n -
        3 * mean * mean * mean * mean;
    return static_cast<double>(fourth / (variance * variance));
  }
};

}  // namespace

StatisticInfo kurtosis_statistic() { return statistic_info<Kurtosis>(); }

}  // namespace detent
