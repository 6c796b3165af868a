#include "detent/statistics/statistic.h"

namespace detent {
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
