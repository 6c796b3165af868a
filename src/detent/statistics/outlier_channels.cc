#include <algorithm>

#include "detent/statistics/statistic.h"

namespace detent {
namespace {

/// The median; the mean of the middle two of an even number. At least one value.
double median_of(std::vector<float> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? double{values[middle]}
                                : (double{values[middle - 1]} + double{values[middle]}) / 2;
}

/// A channel is an outlier when its absmax exceeds `factor` times the median absmax of all channels.
/// (Dettmers et al., LLM.int8(), 2022, take an absolute magnitude of 6, which presumes activations of about
/// unit scale; relative to the median, the same factor does not depend on the scale.)
///
/// outlier_channels: their numbers, counted in row-major order where several dimensions are kept;
/// absmax_median; largest_ratio: of an absmax to the median (NA when that is 0 or both are infinite); count:
/// the values of each channel.
struct OutlierChannels {
  static constexpr const char* kName = "outlier_channels";
  static constexpr const char* kHelp = "channels with far larger magnitudes than most";

  Dims dims = Dims::keeping({1});
  double factor = 6;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("dims", self.dims,
          "dimensions that are reduced, beside the samples; what is kept are the channels");
    visit("factor", self.factor, "times the median of the channels' largest magnitudes", Between{1, 1e6});
  }

  Needs needs() const { return {}; }
  Table result(const Accumulators& data) const {
    std::vector<float> absmax;
    for (size_t slot = 0; slot < data.slots(); ++slot) absmax.push_back(data.extremes(slot).max_magnitude());
    const double median = median_of(absmax);
    List outliers;
    for (size_t slot = 0; slot < absmax.size(); ++slot) {
      if (double{absmax[slot]} > factor * median) outliers.emplace_back(static_cast<int64_t>(slot));
    }
    const double largest = double{*std::ranges::max_element(absmax)} / median;
    return {{"outlier_channels", std::move(outliers)},
            {"absmax_median", median},
            {"largest_ratio", median > 0 && largest == largest ? Value(largest) : Value()},
            {"count", data.elements_per_slot()}};
  }
};

}  // namespace

StatisticInfo outlier_channels_statistic() { return statistic_info<OutlierChannels>(); }

}  // namespace detent
