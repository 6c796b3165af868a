#include "detent/passes/transform/output_bits.h"

#include <algorithm>

namespace detent {

OutputBits compare_output_bits(const Graph& before, const Graph& after, int64_t samples,
                               const PassContext& context) {
  const auto calibration = context.open_calibration();
  const auto one = context.executor().compile(before);
  const auto other = context.executor().compile(after);
  const int64_t count = std::min(samples, calibration->size());
  OutputBits result;
  for (const auto& [begin, end] : calibration_batches(*calibration, before, count, context.batch_size)) {
    const auto inputs = calibration->inputs(begin, end);
    const std::vector<Tensor> expected = one->run(inputs);
    const std::vector<Tensor> actual = other->run(inputs);
    for (size_t i = 0; i < expected.size(); ++i) {
      result.compared += expected[i].numel();
      const auto left = expected[i].values<float>();
      const auto right = actual.at(i).values<float>();
      for (size_t k = 0; k < left.size(); ++k) result.differing += left[k] == right[k] ? 0 : 1;
    }
  }
  return result;
}

}  // namespace detent
