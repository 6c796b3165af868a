#include "detent/statistics/statistic.h"

namespace detent {
namespace {

/// Means over the samples of each sample's smallest and largest finite value: min, max, range, count. A
/// sample that holds no finite value at a kept position has no part there; count is the number of samples
/// that have.
struct AverageRange {
  static constexpr const char* kName = "average_range";
  static constexpr const char* kHelp = "mean over the samples of each sample's smallest and largest value";

  Dims dims;
  bool abs = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("dims", self.dims, kDimsHelp);
    visit("abs", self.abs, kAbsHelp);
  }

  Needs needs() const { return {.sample_ranges = true}; }
  Table result(const Accumulators& data) const {
    check_finite(data, kName);
    const auto min = [&](size_t slot) { return data.sample_ranges(slot).mean_min(abs); };
    const auto max = [&](size_t slot) { return data.sample_ranges(slot).mean_max(abs); };
    return {{"min", shaped(data, min)},
            {"max", shaped(data, max)},
            {"range", shaped(data, [&](size_t slot) { return max(slot) - min(slot); })},
            {"count", shaped(data, [&](size_t slot) { return data.sample_ranges(slot).samples; })}};
  }
};

}  // namespace

StatisticInfo average_range_statistic() { return statistic_info<AverageRange>(); }

}  // namespace detent
