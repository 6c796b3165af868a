#include "detent/statistics/statistic.h"

namespace detent {
namespace {

/// min, max, range = max - min in float32, count: the values of each kept position, NaN included.
struct RangeMinMax {
  static constexpr const char* kName = "range_min_max";
  static constexpr const char* kHelp = "smallest and largest value";

  Dims dims;
  bool abs = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("dims", self.dims, kDimsHelp);
    visit("abs", self.abs, kAbsHelp);
  }

  Needs needs() const { return {}; }
  Table result(const Accumulators& data) const {
    std::vector<float> min;
    std::vector<float> max;
    for (size_t slot = 0; slot < data.slots(); ++slot) {
      min.push_back(data.extremes(slot).min(abs));
      max.push_back(data.extremes(slot).max(abs));
    }
    return range_table(data.reduction(), min, max, data.elements_per_slot());
  }
};

}  // namespace

StatisticInfo range_min_max_statistic() { return statistic_info<RangeMinMax>(); }

}  // namespace detent
