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
  ValueScan expected_scan;
  scan_values_reference(values, expected_scan);
  EXPECT_EQ(scan_values(values), expected_scan);
  struct Halves {
    explicit Halves(size_t size) : positive(size), negative(size) {}
    std::vector<float> positive, negative;
    bool operator==(const Halves&) const = default;
  };
  Halves halves(values.size());
  Halves expected_halves(values.size());
  SplitValues expected;
  split_values_reference(values, expected_halves.positive.data(), expected_halves.negative.data(), expected);
  EXPECT_EQ(split_values(values, halves.positive.data(), halves.negative.data()), expected);
  for (Halves* each : {&halves, &expected_halves}) {
    each->positive.resize(expected.kinds.positive);
    each->negative.resize(expected.kinds.negative);
  }
  EXPECT_EQ(halves, expected_halves);
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
