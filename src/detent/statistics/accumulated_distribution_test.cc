#include "detent/statistics/accumulated_distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "detent/core/error.h"
#include "detent/formats/quant_spec.h"
#include "detent/statistics/calibration.h"
#include "detent/statistics/collector.h"
#include "detent/statistics/distribution_results.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Collector collector_of(const std::vector<const char*>& statistics, const Table& options = {}) {
  Table table;
  for (const char* name : statistics) table[name] = options;
  return {table, "test"};
}

Tensor normal_tensor(Shape shape) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.5F, 2);
  Tensor tensor(DType::kFloat32, std::move(shape));
  for (float& value : tensor.values<float>()) value = normal(generator);
  return tensor;
}

TEST(DistributionOf, EqualsTheValuesWhileTheyAreKept) {
  const std::vector<float> values = {1, -2, 0, 3, 3, -0.0F, 0.5F, -2, 1};
  Collector collector = collector_of({"histogram", "variance_precise", "average_range"});
  collector.update(Tensor::from({3, 3}, values));
  const Distribution found = distribution_of(collector.accumulators("histogram"), 0);
  const Distribution expected = Distribution::of(values);
  EXPECT_EQ(found.bins, expected.bins);
  EXPECT_EQ(found.intervals, std::nullopt);
  EXPECT_EQ(found.range->low, -2);
  EXPECT_EQ(found.range->high, 3);
  EXPECT_DOUBLE_EQ(*found.mean, *expected.mean);
  EXPECT_DOUBLE_EQ(*found.variance, *expected.variance);
  EXPECT_FLOAT_EQ(found.average_range->low, (-2.0F + 0 - 2) / 3);
  EXPECT_FLOAT_EQ(found.average_range->high, (1.0F + 3 + 1) / 3);
}

TEST(DistributionOf, KeepsTheBoundWhereValuesAreCounted) {
  const Tensor values = normal_tensor({64, 500});
  Collector collector = collector_of({"histogram"}, {{"exact_values", 100}});
  collector.update(values);
  const Distribution found = distribution_of(collector.accumulators("histogram"), 0);
  const Distribution exact = Distribution::of(values.values<float>());
  EXPECT_EQ(found.count(), exact.count());
  EXPECT_EQ(found.bins.front().value < 0, exact.range->low < 0);
  EXPECT_GE(found.bins.front().value, exact.range->low);
  EXPECT_LE(found.bins.back().value, exact.range->high);
  size_t at = 0;
  int64_t left = exact.bins[0].count;
  for (const auto& [value, count] : found.bins) {
    for (int64_t taken = 0; taken < count; ++taken, --left) {
      if (left == 0) left = exact.bins[++at].count;
      ASSERT_NEAR(value, exact.bins[at].value, std::fabs(value) * 0x1p-12F);
    }
  }
  for (size_t i = 1; i < found.bins.size(); ++i) ASSERT_LT(found.bins[i - 1].value, found.bins[i].value);
}

TEST(DistributionOf, HoldsOnlyWhatWasGathered) {
  Collector collector = collector_of({"range_min_max"});
  collector.update(Tensor::from({2}, std::vector<float>{1, 2}));
  const Distribution found = distribution_of(collector.accumulators("range_min_max"), 0);
  EXPECT_TRUE(found.range.has_value());
  EXPECT_TRUE(found.bins.empty());
  EXPECT_EQ(found.mean, std::nullopt);
  EXPECT_EQ(found.variance, std::nullopt);
  EXPECT_FALSE(found.average_range.has_value());
}

TEST(DistributionOf, OneForEachSlot) {
  Collector collector = collector_of({"histogram", "range_min_max"}, {{"dims", Table{{"keep", List{1}}}}});
  collector.update(Tensor::from({2, 2}, std::vector<float>{1, -5, 2, -6}));
  const Accumulators& data = collector.accumulators("histogram");
  ASSERT_EQ(data.slots(), 2U);
  EXPECT_EQ(distribution_of(data, 0).bins, (std::vector<Distribution::Bin>{{1, 1}, {2, 1}}));
  EXPECT_EQ(distribution_of(data, 1).bins, (std::vector<Distribution::Bin>{{-6, 1}, {-5, 1}}));
}

TEST(DistributionOf, ShowsInfinitiesToTheCalibrator) {
  Collector collector = collector_of({"histogram", "variance_precise"});
  collector.update(Tensor::from({4}, std::vector<float>{1, kInfinity, -2, std::nanf("")}));
  const Distribution found = distribution_of(collector.accumulators("histogram"), 0);
  EXPECT_EQ(found.count(), 2);
  EXPECT_EQ(found.range->high, kInfinity);
  EXPECT_EQ(found.mean, -0.5);
  const QuantSpec spec = parse_quant_spec_text("affine:width=8");
  EXPECT_THAT(
      [&] {
        calibrate(spec, {&found, 1}, {}, "place");
      },
      ThrowsMessage<Error>(HasSubstr("place: the range is [-2.0, inf]")));
  CalibrationOptions percentile{.calibrator = Calibrator::kPercentile};
  EXPECT_NO_THROW(calibrate(spec, {&found, 1}, percentile, "place"));
}

TEST(DistributionOf, NothingFiniteHasNoMoments) {
  Collector collector = collector_of({"histogram", "variance_precise", "average_range"});
  collector.update(Tensor::from({1}, std::vector<float>{std::nanf("")}));
  const Distribution found = distribution_of(collector.accumulators("histogram"), 0);
  EXPECT_FALSE(found.range.has_value());
  EXPECT_EQ(found.count(), 0);
  EXPECT_EQ(found.mean, std::nullopt);
  EXPECT_FALSE(found.average_range.has_value());
}

/// Every calibrator finds what it needs, and the search is as good as one over the values themselves.
TEST(DistributionOf, FeedsEveryCalibrator) {
  const Tensor values = normal_tensor({64, 500});
  Collector collector = collector_of({"histogram", "range_min_max", "variance_precise", "average_range"}, {});
  collector.update(values);
  const Distribution found = distribution_of(collector.accumulators("histogram"), 0);
  const QuantSpec spec = parse_quant_spec_text("affine:width=4");
  for (const Calibrator calibrator : {Calibrator::kMinMax, Calibrator::kPercentile, Calibrator::kAverageRange,
                                      Calibrator::kNSigma, Calibrator::kMse, Calibrator::kEntropy}) {
    EXPECT_NO_THROW(calibrate(spec, {&found, 1}, {.calibrator = calibrator}, "test"));
  }
  const Distribution exact = Distribution::of(values.values<float>());
  const CalibrationOptions mse{.calibrator = Calibrator::kMse};
  EXPECT_EQ(calibrate(spec, {&found, 1}, mse, "test"), calibrate(spec, {&exact, 1}, mse, "test"));
}

}  // namespace
}  // namespace detent
