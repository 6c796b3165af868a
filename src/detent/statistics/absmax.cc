#include "detent/statistics/statistic.h"

namespace detent {
namespace {

/// absmax, count.
struct AbsMax : DimsOption {
  static constexpr const char* kName = "absmax";
  static constexpr const char* kHelp = "largest magnitude";

  Needs needs() const { return {}; }
  Table result(const Accumulators& data) const {
    const auto absmax = [&](size_t slot) { return double{data.extremes(slot).max_magnitude()}; };
    return {{"absmax", shaped(data, absmax)}, {"count", data.elements_per_slot()}};
  }
};

}  // namespace

StatisticInfo absmax_statistic() { return statistic_info<AbsMax>(); }

}  // namespace detent
