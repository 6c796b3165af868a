#include "detent/core/error.h"
#include "detent/statistics/collector.h"

namespace detent {

std::vector<StatisticInfo> all_statistics() {
  return {
      range_min_max_statistic(),
      range_quantile_statistic(),
      range_n_sigma_statistic(),
      average_range_statistic(),
      mean_statistic(),
      abs_mean_statistic(),
      absmax_statistic(),
      variance_online_statistic(),
      variance_precise_statistic(),
      kurtosis_statistic(),
      zero_share_statistic(),
      histogram_statistic(),
      outlier_channels_statistic(),
      record_statistic(),
  };
}

std::unique_ptr<Statistic> make_statistic(std::string_view name, const Table& options,
                                          const std::string& where) {
  std::vector<std::string> names;
  for (const StatisticInfo& known : all_statistics()) {
    if (name == known.name) return known.make(options, fmt::format("{}: {}", where, name));
    names.push_back(known.name);
  }
  fail("{}: {}", where, unknown_name_message("statistic", name, names));
}

void check_finite(const Accumulators& data, std::string_view statistic) {
  for (size_t slot = 0; slot < data.slots(); ++slot) {
    if (data.extremes(slot).finite() == 0)
      fail("{}: no finite value was seen{}", statistic,
           data.slots() == 1 ? "" : fmt::format(" at kept position {} of {}", slot, data.slots()));
  }
}

}  // namespace detent
