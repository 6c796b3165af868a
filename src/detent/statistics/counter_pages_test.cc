// Every SIMD target counts as the plain loops do.
#include "detent/statistics/key_histogram.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <random>
#include <vector>

namespace detent {
namespace {

class CounterPagesOnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

void expect_counts_as_reference(std::vector<uint32_t> counts, std::vector<uint16_t> counters) {
  EXPECT_EQ(sum_of_counts(counts), sum_of_counts_reference(counts));
  std::vector<uint32_t> expected_counts = counts;
  std::vector<uint16_t> expected_counters = counters;
  const bool passed = add_counts_reference(expected_counts, expected_counters.data());
  EXPECT_EQ(add_counts(counts, counters.data()), passed);
  EXPECT_EQ(counts, expected_counts);
  EXPECT_EQ(counters, expected_counters);
}

TEST_P(CounterPagesOnEveryTarget, RandomCountsOfAnyNumber) {
  std::mt19937 generator(1);
  for (size_t size = 0; size < 100; ++size) {
    for (const int shift : {16, 26}) {  // with and without counters that pass their end
      std::vector<uint32_t> counts(size);
      std::vector<uint16_t> counters(size);
      for (uint32_t& count : counts) count = static_cast<uint32_t>(generator()) >> shift;
      for (uint16_t& counter : counters) counter = static_cast<uint16_t>(generator() >> shift);
      expect_counts_as_reference(counts, counters);
    }
  }
}

TEST_P(CounterPagesOnEveryTarget, CounterAtItsEndAtEveryPosition) {
  for (size_t i = 0; i < 70; ++i) {
    for (const uint32_t count : {0U, 1U, 0xFFFFU, 0x10000U, 0x7FFFFFFFU}) {
      std::vector<uint32_t> counts(70);
      std::vector<uint16_t> counters(70, 0xFFFF);
      counts[i] = count;
      expect_counts_as_reference(counts, counters);
      EXPECT_EQ(add_counts(counts, counters.data()), count > 0);
      EXPECT_EQ(counters[i], (0xFFFFU + count) & 0xFFFFU);
      EXPECT_EQ(counts[i], (uint64_t{0xFFFF} + count) >> 16);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CounterPagesOnEveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace detent
