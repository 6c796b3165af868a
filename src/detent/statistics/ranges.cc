#include "detent/statistics/statistic.h"

#include <cmath>

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
