#pragma once

#include <vector>

#include "detent/statistics/collector.h"
#include "detent/statistics/reduction.h"

namespace detent {

/// Exact quantiles: min is that of 1 - quantile, max that of quantile. Result: min, max, range = max - min,
/// and count, the values seen for each kept position, NaN included. Keeps every value: 4 bytes each.
class RangeQuantile final : public Collector {
 public:
  static constexpr const char* kName = "range_quantile";
  static constexpr const char* kHelp = "the range that all but the outermost values lie in";

  struct Options {
    Dims dims;
    bool abs = false;
    double quantile = 0.975;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor& visit) {
      visit("dims", self.dims, "dimensions that are reduced, beside the samples");
      visit("abs", self.abs, "take the magnitudes");
      visit("quantile", self.quantile, "share of the values at or below max; 0.5: the median",
            Between{0.5, 1});
    }
    bool operator==(const Options&) const = default;
  };

  explicit RangeQuantile(const Options& options) : options_(options), reduction_(options.dims) {}

  std::string_view name() const override { return kName; }
  void update(const Tensor& sample_batch) override;
  void merge(const Collector& other) override;
  Table result() const override;

 private:
  Options options_;
  Reduction reduction_;
  std::vector<std::vector<float>> values_;  // of each slot, without NaN
  SpecialCounts special_;
  int64_t elements_ = 0;
};

/// The quantile q of `values` (not empty, no NaN; reordered), interpolated between order statistics: rank = q
/// * (n - 1) lies t of the way from the value a at floor(rank) to the next one b. Everything in float32, as
/// torch.quantile computes it; ranks of more than 2^24 values in double.
float quantile_of(std::vector<float>& values, double q);

}  // namespace detent
