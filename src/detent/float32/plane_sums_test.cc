#include "detent/float32/channels_last_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "detent/formats/every_target_test.h"

namespace detent {
namespace {

class PlaneSumsOnTargets : public EveryTargetTest {};
DETENT_ON_EVERY_TARGET(PlaneSumsOnTargets);

std::vector<float> normal_values(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = draw(generator);
  return values;
}

/// One sum: what is there, then channel by channel all taps, with one rounding a product.
float expected_sum(const PlaneSums& s, float sum, int64_t output, int64_t window) {
  const float* weight = s.weights + output;
  for (int64_t c = 0; c < s.channels; ++c) {
    for (const int64_t tap : s.taps) {
      sum = std::fma(s.planes[c * s.plane + tap + window], *weight, sum);
      weight += s.outputs;
    }
  }
  return sum;
}

TEST_P(PlaneSumsOnTargets, SumsAreInTheOrderStated) {
  const std::vector<int64_t> taps = {0, 1, 5, 40, 3};
  const std::vector<float> planes = normal_values(4000, 1);
  const std::vector<float> weights = normal_values(std::size_t{7} * 5 * 8, 2);
  for (const int64_t windows : {16, 32, 48, 112, 160, 272}) {
    for (int64_t outputs = 1; outputs <= 8; ++outputs) {
      const std::vector<float> before = normal_values(static_cast<size_t>(outputs * windows), 3);
      std::vector<float> sums = before;
      const PlaneSums all{.planes = planes.data(),
                          .plane = 500,
                          .channels = 7,
                          .taps = taps,
                          .weights = weights.data(),
                          .outputs = outputs,
                          .windows = windows,
                          .sums = sums.data()};
      add_planes(all);
      for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t i = 0; i < windows; ++i) {
          const auto at = static_cast<size_t>(o * windows + i);
          ASSERT_EQ(sums[at], expected_sum(all, before[at], o, i)) << o << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace detent
