// Every SIMD target reduces groups as their definitions say, to the last bit.
#include "detent/formats/groups/group.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/formats/every_target_test.h"

namespace detent {
namespace {

/// Magnitudes from 2^-60 to 2^60, so that the order of a sum shows in it; some not finite if asked for.
std::vector<float> random_values(size_t count, uint32_t seed, bool all_finite) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& x : values) {
    const float fraction = 1.0F + static_cast<float>(random() % 4096) / 4096.0F;
    x = std::ldexp(fraction, static_cast<int>(random() % 121) - 60);
    if (random() % 16 == 0) x = 0;
    if (!all_finite && random() % 64 == 0) x = std::numeric_limits<float>::infinity();
    if (!all_finite && random() % 64 == 0) x = std::numeric_limits<float>::quiet_NaN();
    if (random() % 2 == 0) x = -x;
  }
  return values;
}

/// The elements of a group, run by run.
std::vector<std::vector<float>> runs(const std::vector<float>& values, const Grouping& grouping,
                                     int64_t index) {
  std::vector<std::vector<float>> result;
  for (int64_t outer = 0; outer < grouping.outer; ++outer) {
    const auto first = values.begin() + (outer * grouping.length + index) * grouping.inner;
    result.emplace_back(first, first + grouping.inner);
  }
  return result;
}

/// As group_kernels.h defines it, for groups of one chunk.
MagnitudeSum reference_sum(const std::vector<std::vector<float>>& runs, const std::vector<float>& gammas,
                           float bound) {
  double sums[kRunningSums] = {};
  MagnitudeSum result;
  for (const std::vector<float>& run : runs) {
    for (size_t i = 0; i < run.size(); ++i) {
      float x = run[i];
      for (const float gamma : gammas) x -= x >= 0 ? gamma : -gamma;
      if (!std::isfinite(x) || !(std::fabs(x) > bound)) continue;
      sums[i % kRunningSums] += static_cast<double>(std::fabs(x));
      ++result.count;
    }
  }
  for (const double sum : sums) result.sum += sum;
  return result;
}

void expect_same(const MagnitudeSum& got, const MagnitudeSum& expected) {
  EXPECT_EQ(std::bit_cast<uint64_t>(got.sum), std::bit_cast<uint64_t>(expected.sum));
  EXPECT_EQ(got.count, expected.count);
}

class EveryTargetGroups : public EveryTargetTest {
 protected:
  static void expect_reduces(const std::vector<float>& values, const Grouping& grouping, int64_t index) {
    const Group group(values, grouping, index);
    const auto of_group = runs(values, grouping, index);
    expect_same(group.magnitudes(), reference_sum(of_group, {}, -1));
    expect_same(group.magnitudes_above(0.5F), reference_sum(of_group, {}, 0.5F));
    const std::vector<float> gammas = {1.0F, 0.25F};
    expect_same(group.residual_magnitudes(gammas), reference_sum(of_group, gammas, -1));
    Interval range{0, 0};
    for (const auto& run : of_group) {
      for (const float x : run) {
        if (std::isfinite(x)) range = {std::min(range.low, x), std::max(range.high, x)};
      }
    }
    EXPECT_EQ(std::bit_cast<uint32_t>(group.range_with_zero().low), std::bit_cast<uint32_t>(range.low));
    EXPECT_EQ(std::bit_cast<uint32_t>(group.range_with_zero().high), std::bit_cast<uint32_t>(range.high));
    EXPECT_EQ(group.largest_magnitude(), std::max(-range.low, range.high));
  }
};

TEST_P(EveryTargetGroups, LengthsAndUnalignedStarts) {
  for (const bool all_finite : {true, false}) {
    const std::vector<float> pool = random_values(80, 3, all_finite);
    for (int64_t offset = 0; offset < 3; ++offset) {
      for (int64_t count = 1; count <= 4 * 16 + 3; ++count) {
        const std::vector<float> values(pool.begin() + offset, pool.begin() + offset + count);
        SCOPED_TRACE(count);
        ASSERT_NO_FATAL_FAILURE(expect_reduces(values, {1, 1, count}, 0));
      }
    }
  }
}

TEST_P(EveryTargetGroups, Channels) {
  for (const int64_t inner : {1, 3, 16, 19, 40, 401}) {
    const Grouping grouping{5, 4, inner};
    const std::vector<float> values = random_values(static_cast<size_t>(grouping.elements()), 5, false);
    for (int64_t index = 0; index < 4; ++index)
      ASSERT_NO_FATAL_FAILURE(expect_reduces(values, grouping, index));
  }
}

TEST_P(EveryTargetGroups, ThreadsDoNotChangeTheResult) {
  const std::vector<float> values = random_values(100000, 7, true);
  const Group group(values, {1, 1, 100000}, 0);
  const int threads = thread_count();
  set_thread_count(1);
  const MagnitudeSum of_one = group.magnitudes();
  const MagnitudeSum above_of_one = group.magnitudes_above(2.0F);
  set_thread_count(5);
  expect_same(group.magnitudes(), of_one);
  expect_same(group.magnitudes_above(2.0F), above_of_one);
  set_thread_count(threads);
  // The definition, chunk by chunk.
  MagnitudeSum expected;
  for (size_t begin = 0; begin < values.size(); begin += 16384) {
    const auto end = std::min(values.size(), begin + 16384);
    const MagnitudeSum chunk = reference_sum(
        {{values.begin() + static_cast<int64_t>(begin), values.begin() + static_cast<int64_t>(end)}}, {}, -1);
    expected = {expected.sum + chunk.sum, expected.count + chunk.count};
  }
  expect_same(of_one, expected);
}

DETENT_ON_EVERY_TARGET(EveryTargetGroups);

}  // namespace
}  // namespace detent
