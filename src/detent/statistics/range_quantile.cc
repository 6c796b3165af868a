#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/statistics/value_options.h"

namespace detent {
namespace {

/// Between two order statistics a <= b; t in [0, 1). Equal values come first: the difference of infinities is
/// NaN.
float interpolate(float a, float b, float t) {
  if (a == b || t == 0) return a;
  return t < 0.5F ? a + t * (b - a) : b - (b - a) * (1.0F - t);
}

struct Rank {
  int64_t below;
  float beyond;  // of the way to the next value
};

/// Rank of the quantile q of `count` values: q * (count - 1), in float32 as torch.quantile computes it, for
/// more than 2^24 values in double.
Rank rank_of(int64_t count, double q) {
  constexpr int64_t kFloatIntegers = int64_t{1} << 24;
  if (count <= kFloatIntegers) {
    const float rank = static_cast<float>(q) * static_cast<float>(count - 1);
    const float below = std::floor(rank);
    return {static_cast<int64_t>(below), rank - below};
  }
  const double rank = q * static_cast<double>(count - 1);
  const double below = std::floor(rank);
  return {static_cast<int64_t>(below), static_cast<float>(rank - below)};
}

/// The values of a slot that are not NaN, by rank.
class OrderStatistics {
 public:
  OrderStatistics(const Extremes& extremes, std::vector<ValueBin> bins, bool abs)
      : bins_(std::move(bins)), min_(extremes.min(abs)), max_(extremes.max(abs)) {
    below_ = abs ? 0 : extremes.negative_infinities();
    count_ = extremes.count() - extremes.nan();
    ends_.reserve(bins_.size());
    int64_t seen = below_;
    for (const ValueBin& bin : bins_) ends_.push_back(seen += bin.count);
  }

  int64_t count() const { return count_; }

  /// The middle of the bin; the smallest and the largest value are known exactly.
  float at(int64_t rank) const {
    if (rank <= 0 || rank < below_) return min_;
    if (rank >= count_ - 1) return max_;
    const auto end = std::ranges::upper_bound(ends_, rank);
    if (end == ends_.end()) return max_;
    const ValueBin& bin = bins_[static_cast<size_t>(end - ends_.begin())];
    return std::clamp(bin.lower + (bin.upper - bin.lower) / 2, min_, max_);
  }

  float quantile(double q) const {
    const auto [below, beyond] = rank_of(count_, q);
    return interpolate(at(below), at(below + 1), beyond);
  }

 private:
  std::vector<ValueBin> bins_;
  std::vector<int64_t> ends_;  // of each bin: the first rank after it
  float min_;
  float max_;
  int64_t below_;  // negative infinities
  int64_t count_;
};

/// min is the quantile 1 - quantile, max the quantile `quantile`, interpolated linearly between order
/// statistics; range = max - min; count: the values of each kept position, NaN included. Exact as long as the
/// values themselves are kept; beyond, each order statistic has at most the relative error `relative_error`,
/// which the result then states, and subnormal values the absolute error of the smallest normal one.
struct RangeQuantile : ValueOptions {
  static constexpr const char* kName = "range_quantile";
  static constexpr const char* kHelp = "the range that all but the outermost values lie in";

  double quantile = 0.975;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    ValueOptions::fields(self, visit);
    visit("quantile", self.quantile, "share of the values at or below max; 0.5: the median", Between{0.5, 1});
    resolution_fields(self, visit);
  }

  Table result(const Accumulators& data) const {
    std::vector<float> min;
    std::vector<float> max;
    for (size_t slot = 0; slot < data.slots(); ++slot) {
      const OrderStatistics values(data.extremes(slot), bins(data, slot), abs);
      min.push_back(values.quantile(1.0 - quantile));
      max.push_back(values.quantile(quantile));
    }
    Table table = range_table(data.reduction(), min, max, data.elements_per_slot());
    write_error(data, table);
    return table;
  }
};

}  // namespace

StatisticInfo range_quantile_statistic() { return statistic_info<RangeQuantile>(); }

}  // namespace detent
