#pragma once

#include "detent/statistics/exact_sum.h"
#include "detent/statistics/collector.h"
#include "detent/statistics/reduction.h"

namespace detent {

/// Means over the samples of each sample's smallest and largest value: min, max, range, count (samples).
/// Samples that hold no finite value have no part in it. Always over whole samples.
class AverageRange final : public Collector {
 public:
  static constexpr const char* kName = "average_range";
  static constexpr const char* kHelp = "mean over the samples of each sample's smallest and largest value";

  struct Options {
    bool abs = false;
    template <class Self, class Visitor>
    static void fields(Self& self, Visitor& visit) {
      visit("abs", self.abs, "take the magnitudes");
    }
    bool operator==(const Options&) const = default;
  };

  explicit AverageRange(const Options& options) : options_(options) {}

  std::string_view name() const override { return kName; }
  void update(const Tensor& sample_batch) override;
  void merge(const Collector& other) override;
  Table result() const override;

 private:
  void add_sample(std::span<const float> sample);

  Options options_;
  ExactSum<1> min_;
  ExactSum<1> max_;
  int64_t samples_ = 0;
  SpecialCounts special_;
};

}  // namespace detent
