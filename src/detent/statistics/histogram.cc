#include <algorithm>

#include "detent/statistics/value_options.h"

namespace detent {
namespace {

/// edges, bins + 1 of them evenly spaced from the smallest to the largest finite value (two equal ones where
/// all values are equal); counts of the finite values between them, the last bin with its upper edge; count:
/// the values of each kept position, NaN included. Beyond `exact_values` values, one may be counted on the
/// other side of an edge when it lies within `relative_error` of it, relatively; the result then states that.
struct Histogram : ValueOptions {
  static constexpr const char* kName = "histogram";
  static constexpr const char* kHelp = "how many values lie in each of some equal intervals";

  int64_t bin_count = 64;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    ValueOptions::fields(self, visit);
    visit("bins", self.bin_count, "intervals between the smallest and the largest value", Between{1, 1e6});
    resolution_fields(self, visit);
  }

  Table result(const Accumulators& data) const {
    check_finite(data, kName);
    Table table = {{"edges", data.reduction().shaped([&](size_t slot) { return edges(data, slot); })},
                   {"counts", data.reduction().shaped([&](size_t slot) { return counts(data, slot); })},
                   {"count", data.elements_per_slot()}};
    write_error(data, table);
    return table;
  }

 private:
  struct Grid {
    double min;
    double max;
    int64_t bins;

    double edge(int64_t i) const {
      return i == bins ? max : min + (max - min) * (static_cast<double>(i) / static_cast<double>(bins));
    }
  };

  Grid grid(const Accumulators& data, size_t slot) const {
    const double min = data.extremes(slot).finite_min(abs);
    const double max = data.extremes(slot).finite_max(abs);
    return {min, max, min == max ? 1 : bin_count};
  }

  Value edges(const Accumulators& data, size_t slot) const {
    const Grid grid_of_slot = grid(data, slot);
    List edges;
    for (int64_t i = 0; i <= grid_of_slot.bins; ++i) edges.emplace_back(grid_of_slot.edge(i));
    return edges;
  }

  Value counts(const Accumulators& data, size_t slot) const {
    const Grid grid_of_slot = grid(data, slot);
    std::vector<int64_t> counts(static_cast<size_t>(grid_of_slot.bins));
    int64_t at = 0;
    double upper_edge = grid_of_slot.edge(1);
    for (const ValueBin& bin : bins(data, slot)) {  // ascending
      const double middle = (double{bin.lower} + double{bin.upper}) / 2;
      const double value = std::clamp(middle, grid_of_slot.min, grid_of_slot.max);
      while (at + 1 < grid_of_slot.bins && value >= upper_edge) upper_edge = grid_of_slot.edge(++at + 1);
      counts[static_cast<size_t>(at)] += bin.count;
    }
    return Value(counts);
  }
};

}  // namespace

StatisticInfo histogram_statistic() { return statistic_info<Histogram>(); }

}  // namespace detent
