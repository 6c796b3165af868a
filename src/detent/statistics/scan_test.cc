// Every SIMD target sees what the plain loops see.
#include "detent/statistics/scan.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace detent {
namespace {

class ScanOnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

void expect_as_reference(std::span<const float> values) {
  ValueScan expected;
  scan_values_reference(values, expected);
  const ValueScan scan = scan_values(values);
  EXPECT_EQ(scan.min_magnitude, expected.min_magnitude);
  EXPECT_EQ(scan.max_magnitude, expected.max_magnitude);
  if (expected.max_magnitude <= 0x7F800000U || values.empty()) {
    EXPECT_EQ(scan.min, expected.min);
    EXPECT_EQ(scan.max, expected.max);
  }
  std::vector<float> copy(values.size());
  std::vector<float> expected_copy(values.size());
  FiniteCopy expected_finite;
  copy_finite_reference(values, expected_copy.data(), expected_finite);
  EXPECT_EQ(copy_finite(values, copy.data()), expected_finite);
  EXPECT_EQ(count_zeros(values), expected_finite.kinds.zeros);
  copy.resize(expected_finite.kinds.finite);
  expected_copy.resize(expected_finite.kinds.finite);
  EXPECT_EQ(copy, expected_copy);
}

TEST_P(ScanOnEveryTarget, LengthsAndStarts) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(300);
  for (float& value : values) value = normal(generator);
  for (const size_t start : {size_t{0}, size_t{1}, size_t{3}}) {
    for (size_t size = 0; size < 200; ++size) expect_as_reference(std::span(values).subspan(start, size));
  }
}

TEST_P(ScanOnEveryTarget, AnyBits) {
  std::mt19937 generator(2);
  std::vector<float> values(5000);
  for (float& value : values) value = std::bit_cast<float>(static_cast<uint32_t>(generator()));
  expect_as_reference(values);
}

TEST_P(ScanOnEveryTarget, SpecialValuesAtEveryPosition) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float special : {0.0F, -0.0F, kInfinity, -kInfinity, std::nanf(""), -std::nanf(""), 1e-45F,
                              -1e-45F, std::bit_cast<float>(0x7F800001U)}) {
    for (size_t i = 0; i < 70; ++i) {
      std::vector<float> values(70, 2.0F);
      values[i] = special;
      expect_as_reference(values);
    }
    expect_as_reference(std::vector<float>(70, special));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ScanOnEveryTarget, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace detent
