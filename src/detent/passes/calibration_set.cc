#include "detent/passes/calibration_set.h"

#include <algorithm>
#include <optional>

#include "detent/core/error.h"
#include "detent/graph/value_sizes.h"

namespace detent {

std::vector<SampleRange> calibration_batches(const CalibrationSet& data, const Graph& graph, int64_t samples,
                                             int64_t most) {
  const std::optional<int64_t> fixed = fixed_samples(graph);
  const int64_t size = fixed.value_or(most);
  samples = std::min(std::max(samples, fixed.value_or(0)), data.size());
  std::vector<SampleRange> batches;
  for (int64_t begin = 0, end = 0; begin < samples; begin = end) {
    end = data.same_size_end(begin, std::min(begin + size, samples));
    if (!fixed || end - begin == *fixed) batches.push_back({begin, end});
  }
  if (batches.empty() && samples > 0)
    fail("the network takes {} samples at once, and there are no more than {} of one size", size, samples);
  return batches;
}

NamedSizes sample_sizes(const CalibrationSet& data, const Graph& graph) {
  return data.size() == 0 ? NamedSizes() : sizes_of(graph, data.inputs(0, 1));
}

int64_t sample_count(const std::vector<SampleRange>& batches) {
  int64_t count = 0;
  for (const auto& [begin, end] : batches) count += end - begin;
  return count;
}

}  // namespace detent
