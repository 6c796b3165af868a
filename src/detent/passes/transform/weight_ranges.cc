#include "detent/passes/transform/weight_ranges.h"

#include <span>

#include "detent/formats/groups/group_parameters.h"

namespace detent {
namespace {

Distribution distribution_for(Calibrator calibrator, std::span<const float> values) {
  return calibrator == Calibrator::kMinMax ? Distribution::range_of(values) : Distribution::of(values);
}

}  // namespace

std::vector<Distribution> weight_distributions(const Tensor& weight, const QuantSpec& spec,
                                               Calibrator calibrator) {
  if (spec.granularity == Granularity::kTensor) return {distribution_for(calibrator, weight.values<float>())};
  const Grouping grouping = make_grouping(spec, weight.shape());
  std::vector<std::vector<float>> values(static_cast<size_t>(grouping.groups()));
  const auto first = weight.values<float>().begin();
  for (int64_t i = 0, end = 0; i < weight.numel(); i = end) {
    end = grouping.end_of_run(i);
    std::vector<float>& group = values[static_cast<size_t>(grouping.group_of(i))];
    group.insert(group.end(), first + i, first + end);
  }
  std::vector<Distribution> parts;
  for (const std::vector<float>& group : values) parts.push_back(distribution_for(calibrator, group));
  return parts;
}

}  // namespace detent
