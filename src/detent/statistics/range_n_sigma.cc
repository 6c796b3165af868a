#include <cmath>

#include "detent/statistics/statistic.h"

namespace detent {
namespace {

/// min, max = mean -+ num_sigma * sqrt(variance), range, count.
struct RangeNSigma {
  static constexpr const char* kName = "range_n_sigma";
  static constexpr const char* kHelp = "mean plus and minus some standard deviations";

  Dims dims;
  bool abs = false;
  double num_sigma = 3;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("dims", self.dims, kDimsHelp);
    visit("abs", self.abs, kAbsHelp);
    visit("num_sigma", self.num_sigma, "standard deviations on each side", Between{0, 1e6});
  }

  Needs needs() const { return {.sums = true}; }
  Table result(const Accumulators& data) const {
    check_finite(data, kName);
    const auto width = [&](size_t slot) { return num_sigma * std::sqrt(data.variance(slot, abs)); };
    return {{"min", shaped(data, [&](size_t slot) { return data.mean(slot, abs) - width(slot); })},
            {"max", shaped(data, [&](size_t slot) { return data.mean(slot, abs) + width(slot); })},
            {"range", shaped(data, [&](size_t slot) { return 2 * width(slot); })},
            {"count", data.elements_per_slot()}};
  }
};

}  // namespace

StatisticInfo range_n_sigma_statistic() { return statistic_info<RangeNSigma>(); }

}  // namespace detent
