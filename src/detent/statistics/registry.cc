#include "detent/statistics/average_range.h"
#include "detent/statistics/collector.h"
#include "detent/statistics/moments.h"
#include "detent/statistics/range_min_max.h"
#include "detent/statistics/range_quantile.h"
#include "detent/statistics/shares.h"

namespace detent {
namespace {

struct Entry {
  const char* name;
  const char* help;
  std::vector<FieldDescription> (*describe)();
  std::unique_ptr<Collector> (*make)(const Table& options, const std::string& where);
};

template <class C>
std::unique_ptr<Collector> make(const Table& table, const std::string& where) {
  typename C::Options options;
  read_fields(options, table, where);
  return std::make_unique<C>(options);
}

template <class C>
constexpr Entry entry() {
  return {C::kName, C::kHelp, describe_fields<typename C::Options>, make<C>};
}

/// To add a collector: its header above and its line here.
constexpr Entry kCollectors[] = {
    entry<RangeMinMax>(),
    entry<RangeQuantile>(),
    entry<PerSlotCollector<RangeNSigma>>(),
    entry<AverageRange>(),
    entry<PerSlotCollector<Mean>>(),
    entry<PerSlotCollector<AbsMean>>(),
    entry<PerSlotCollector<AbsMax>>(),
    entry<PerSlotCollector<VarianceOnline>>(),
    entry<PerSlotCollector<VariancePrecise>>(),
    entry<PerSlotCollector<Kurtosis>>(),
    entry<PerSlotCollector<ZeroShare>>(),
};

}  // namespace

std::vector<CollectorDescription> describe_collectors() {
  std::vector<CollectorDescription> descriptions;
  for (const Entry& known : kCollectors) descriptions.push_back({known.name, known.help, known.describe()});
  return descriptions;
}

std::unique_ptr<Collector> make_collector(std::string_view name, const Table& options,
                                          const std::string& where) {
  std::vector<std::string> names;
  for (const Entry& known : kCollectors) {
    if (name == known.name) return known.make(options, fmt::format("{}: {}", where, name));
    names.emplace_back(known.name);
  }
  fail("{}: {}", where, unknown_name_message("statistic", name, names));
}

}  // namespace detent
