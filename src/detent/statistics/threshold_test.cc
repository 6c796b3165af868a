// The worked numbers of what Brevitas does (sections 8 and 9 of its description), where docs/training.md
// decides nothing else.

#include "detent/statistics/range_search.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace detent {
namespace {

const std::vector<float> kTensor = {0.1F, -2, 0.5F, 1, 3, -0.25F, 0.75F, 0, -0.5F, 0.5F, -0.5F, 1.5F};

double threshold(Threshold kind, double argument = 0) {
  return find_threshold(kind, argument, kTensor, {-127, 127});
}

TEST(ThresholdTest, IsThatOfTheWorkedTensor) {
  EXPECT_DOUBLE_EQ(threshold(Threshold::kMax), 3);
  EXPECT_NEAR(threshold(Threshold::kMean), 0.8833333, 1e-7);
  EXPECT_DOUBLE_EQ(threshold(Threshold::kRange), 5);
  EXPECT_NEAR(threshold(Threshold::kMeanSigma, 2), 2.6436708, 1e-6);
}

TEST(ThresholdTest, PercentilesAreOrderStatistics) {
  EXPECT_DOUBLE_EQ(threshold(Threshold::kPercentile, 50), 0.5);
  EXPECT_DOUBLE_EQ(threshold(Threshold::kPercentile, 90), 2);
  EXPECT_DOUBLE_EQ(threshold(Threshold::kPercentile, 99), 3);
  EXPECT_DOUBLE_EQ(threshold(Threshold::kPercentile, 100), 3);
  EXPECT_DOUBLE_EQ(low_percentile(10, kTensor), -0.5);
  EXPECT_DOUBLE_EQ(threshold(Threshold::kPercentileRange, 10), 2);
}

TEST(ThresholdTest, APercentileLeavesOutItsFirstValueAfterFiftyThousand) {
  std::vector<float> ramp(50000);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i);
  EXPECT_DOUBLE_EQ(find_threshold(Threshold::kPercentile, 99.999, ramp, {}), 49999);
  ramp.push_back(50000);
  EXPECT_DOUBLE_EQ(find_threshold(Threshold::kPercentile, 99.999, ramp, {}), 49999);
}

TEST(ThresholdTest, RangesOfChannelsReachToZero) {
  const auto range = [](size_t row) {
    return find_threshold(Threshold::kRange, 0, std::span(kTensor).subspan(row * 4, 4), {});
  };
  EXPECT_DOUBLE_EQ(range(0), 3);
  EXPECT_DOUBLE_EQ(range(1), 3.25);
  EXPECT_DOUBLE_EQ(range(2), 2);
  const std::vector<float> negative = {-0.7F, -0.6F, -0.5F,
                                       -0.4F};  // Brevitas: 0.3, which saturates them all
  EXPECT_NEAR(find_threshold(Threshold::kRange, 0, negative, {}), 0.7, 1e-7);
}

TEST(ThresholdTest, SquaredErrorFindsTheWorkedThreshold) {
  const std::vector<float> weights = {0.1F, -0.2F, 0.15F, 0.05F, -0.12F, 0.3F, -0.08F, 1};
  EXPECT_NEAR(find_threshold(Threshold::kSquaredError, 0, weights, {-3, 3}), 0.95, 1e-7);
  EXPECT_DOUBLE_EQ(find_threshold(Threshold::kSquaredError, 0, std::vector<float>{0, 0}, {-3, 3}), 0);
}

TEST(ThresholdTest, LeavesOutWhatIsNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values;
  for (const float value : kTensor) values.insert(values.end(), {kNan, value, kInfinity, -kInfinity});
  for (size_t i = 0; i < enum_names(Threshold()).size(); ++i) {
    const auto kind = static_cast<Threshold>(i);
    EXPECT_EQ(find_threshold(kind, 90, values, {-127, 127}), threshold(kind, 90)) << enum_names(kind)[i];
    EXPECT_EQ(find_threshold(kind, 90, std::vector{kNan, kInfinity}, {-127, 127}), 0) << enum_names(kind)[i];
  }
  EXPECT_EQ(low_percentile(10, values), low_percentile(10, kTensor));
  EXPECT_EQ(low_percentile(10, std::vector{kNan}), 0);
}

TEST(ThresholdTest, LearnedStepsBeginWithTwiceTheMean) {
  // 2 * mean |x| / sqrt(7), times the largest code 7.
  EXPECT_NEAR(find_threshold(Threshold::kLearnedStep, 0, kTensor, {-8, 7}), 2 * 0.8833333 * 2.6457513, 1e-5);
}

}  // namespace
}  // namespace detent
