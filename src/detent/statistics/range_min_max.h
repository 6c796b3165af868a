#pragma once

#include <vector>

#include "detent/statistics/collector.h"
#include "detent/statistics/reduction.h"

namespace detent {

/// Result: min, max, range = max - min, and count, the values seen for each kept position, NaN included.
class RangeMinMax final : public Collector {
 public:
  static constexpr const char* kName = "range_min_max";
  static constexpr const char* kHelp = "smallest and largest value";

  struct Options {
    Dims dims;
    bool abs = false;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor& visit) {
      visit("dims", self.dims, "dimensions that are reduced, beside the samples");
      visit("abs", self.abs, "take the magnitudes");
    }
    bool operator==(const Options&) const = default;
  };

  explicit RangeMinMax(const Options& options) : options_(options), reduction_(options.dims) {}

  std::string_view name() const override { return kName; }
  void update(const Tensor& sample_batch) override;
  void merge(const Collector& other) override;
  Table result() const override;

 private:
  /// The extremes of some slots; min > max where only NaN was seen.
  struct Extremes {
    std::vector<float> min;
    std::vector<float> max;
    SpecialCounts special;

    void resize(size_t slots);
    void add(size_t slot, float value);
    void merge(const Extremes& other);
  };
  Extremes extremes_of(std::span<const float> values, int64_t begin, int64_t end) const;

  Options options_;
  Reduction reduction_;
  Extremes extremes_;
  int64_t elements_ = 0;
};

}  // namespace detent
