#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/fields.h"
#include "detent/statistics/accumulators.h"

namespace detent {

/// One registered statistic with its options.
class Statistic {
 public:
  Statistic() = default;
  Statistic(const Statistic&) = delete;
  Statistic& operator=(const Statistic&) = delete;
  virtual ~Statistic() = default;

  virtual Dims dims() const = 0;
  virtual Needs needs() const = 0;
  /// A function of the needed accumulators. Each kept position has seen a value other than NaN.
  virtual Table result(const Accumulators& data) const = 0;
  virtual Table options() const = 0;
};

/// A statistic's description for help and documentation, and its factory.
struct StatisticInfo {
  std::string name;
  std::string help;
  std::vector<FieldDescription> options;
  std::unique_ptr<Statistic> (*make)(const Table& options, const std::string& where);
};

/// From a struct with `kName`, `kHelp`, options as fields (`fields()`; with `Dims dims` unless it is of whole
/// tensors), `Needs needs() const` and `Table result(const Accumulators&) const`.
template <class S>
StatisticInfo statistic_info() {
  class Concrete final : public Statistic {
   public:
    explicit Concrete(S statistic) : statistic_(std::move(statistic)) {}
    Dims dims() const override {
      if constexpr (requires { statistic_.dims; }) return statistic_.dims;
      return {};
    }
    Needs needs() const override { return statistic_.needs(); }
    Table result(const Accumulators& data) const override { return statistic_.result(data); }
    Table options() const override { return write_fields(statistic_); }

   private:
    S statistic_;
  };
  return {S::kName, S::kHelp, describe_fields<S>(),
          [](const Table& options, const std::string& where) -> std::unique_ptr<Statistic> {
            S statistic;
            read_fields(statistic, options, where);
            return std::make_unique<Concrete>(std::move(statistic));
          }};
}

/// `value_of(slot)` for each slot, in the kept shape.
template <class Function>
Value shaped(const Accumulators& data, Function value_of) {
  return data.reduction().shaped([&](size_t slot) { return Value(value_of(slot)); });
}

/// Throws Error when a kept position has no finite value.
void check_finite(const Accumulators& data, std::string_view statistic);

/// Help of common fields.
inline constexpr const char* kDimsHelp = "dimensions that are reduced, beside the samples";
inline constexpr const char* kAbsHelp = "take the magnitudes";

/// Base of statistics with no other option.
struct DimsOption {
  Dims dims;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("dims", self.dims, kDimsHelp);
  }
};

// One function per statistic, in the file of its name; registry.cc lists them.
StatisticInfo abs_mean_statistic();
StatisticInfo absmax_statistic();
StatisticInfo average_range_statistic();
StatisticInfo histogram_statistic();
StatisticInfo kurtosis_statistic();
StatisticInfo mean_statistic();
StatisticInfo outlier_channels_statistic();
StatisticInfo range_min_max_statistic();
StatisticInfo range_n_sigma_statistic();
StatisticInfo range_quantile_statistic();
StatisticInfo record_statistic();
StatisticInfo variance_online_statistic();
StatisticInfo variance_precise_statistic();
StatisticInfo zero_share_statistic();

}  // namespace detent
