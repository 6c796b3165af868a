#include "detent/formats/measure/distortion.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/parallel.h"

namespace detent {
namespace {

Tensor tensor_of(const std::vector<float>& values) {
  return Tensor::from({static_cast<int64_t>(values.size())}, values);
}

Distortion distortion_of(const std::vector<float>& original, const std::vector<float>& quantized) {
  Distortion distortion;
  distortion.update(tensor_of(original), tensor_of(quantized));
  return distortion;
}

std::vector<float> wave(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(std::sin(0.37F * static_cast<float>(i)));
  return values;
}

TEST(Distortion, MeasuresByTheirDefinitions) {
  const Distortion d = distortion_of({3.0F, 4.0F, 0.25F}, {3.0F, 3.0F, 0.0F});
  EXPECT_EQ(d.count(), 3);
  EXPECT_DOUBLE_EQ(d.mean_squared_error(), 1.0625 / 3);
  EXPECT_DOUBLE_EQ(d.sqnr_db(), 10 * std::log10(25.0625 / 1.0625));
  EXPECT_DOUBLE_EQ(d.cosine(), 21 / std::sqrt(25.0625 * 18));
  EXPECT_EQ(d.max_error(), 1.0);
  EXPECT_DOUBLE_EQ(d.zero_share(), 1.0 / 3);
  EXPECT_EQ(d.distinct_values().size(), 2U);
  EXPECT_FALSE(d.saturated_share().has_value());
}

TEST(Distortion, NothingAndZerosAndNoError) {
  EXPECT_EQ(Distortion().mean_squared_error(), 0.0);
  EXPECT_EQ(Distortion().zero_share(), 0.0);
  EXPECT_EQ(distortion_of({}, {}).cosine(), 1.0);
  EXPECT_EQ(distortion_of({0.0F, -0.0F}, {0.0F, 0.0F}).distinct_values().size(), 1U);
  EXPECT_EQ(distortion_of({0.0F}, {1.0F}).cosine(), 0.0);
  EXPECT_EQ(distortion_of({0.0F}, {1.0F}).sqnr_db(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(distortion_of({2.0F}, {2.0F}).sqnr_db(), std::numeric_limits<double>::infinity());
}

TEST(Distortion, LeavesOutWhatIsNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Distortion d = distortion_of({kNan, kInfinity, 1.0F, 2.0F}, {kNan, 7.0F, kInfinity, 1.0F});
  EXPECT_EQ(d.nonfinite_count(), 3);
  EXPECT_EQ(d.mean_squared_error(), 1.0);
  EXPECT_EQ(d.distinct_values().size(), 1U);
}

TEST(Distortion, WhatIsNotFiniteHasNotSaturated) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Tensor input = tensor_of({1.0F, 1e6F, -2.0F, kInfinity, -kInfinity, kNan});
  const auto share = [&](const char* spec) {
    return measure_distortion(parse_quant_spec_text(spec), input).saturated_share();
  };
  EXPECT_EQ(share("fixed:width=4,frac_width=0"), 1.0 / 3);
  EXPECT_EQ(share("mx:element=e2m1,block_size=1"), 1.0 / 3);
  EXPECT_EQ(share("fp8_e5m2"), 1.0 / 3);
  EXPECT_EQ(share("fp8_e5m2:saturate=false"), 0.0) << "1e6 became an infinity";
  const Distortion none = measure_distortion(parse_quant_spec_text("fixed"), tensor_of({kInfinity, kNan}));
  EXPECT_EQ(none.saturated_share(), 0.0);
}

/// Whole blocks of finite values take another way than others do.
TEST(Distortion, BlocksAreSummedAsSingleElementsAre) {
  std::vector<float> original = wave(1000);
  std::vector<float> quantized = original;
  for (size_t i = 0; i < quantized.size(); ++i) quantized[i] = std::round(8 * quantized[i]) / 8;
  original[300] = std::numeric_limits<float>::infinity();
  quantized[310] = std::numeric_limits<float>::quiet_NaN();
  double signal = 0;
  double noise = 0;
  double product = 0;
  double power = 0;
  double largest = 0;
  int zeros = 0;
  for (size_t i = 0; i < original.size(); ++i) {
    if (i == 300 || i == 310) continue;
    const auto x = static_cast<double>(original[i]);
    const auto y = static_cast<double>(quantized[i]);
    signal += x * x;
    noise += (x - y) * (x - y);
    product += x * y;
    power += y * y;
    largest = std::max(largest, std::fabs(x - y));
    zeros += y == 0 ? 1 : 0;
  }
  const Distortion d = distortion_of(original, quantized);
  EXPECT_EQ(d.nonfinite_count(), 2);
  EXPECT_EQ(d.max_error(), largest);
  EXPECT_EQ(d.zero_share(), zeros / 998.0);
  EXPECT_NEAR(d.sqnr_db(), 10 * std::log10(signal / noise), 1e-9);
  EXPECT_NEAR(d.cosine(), product / std::sqrt(signal * power), 1e-12);
  EXPECT_NEAR(d.mean_squared_error(), noise / 998, 1e-15);
  EXPECT_EQ(d.distinct_values().size(), 17U);
}

int64_t peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// Many chunks, each with nearly as many different values as are counted at all.
TEST(Distortion, MemoryDoesNotGrowWithTheTensor) {
  constexpr int64_t kDifferent = 60000;
  Tensor tensor(DType::kFloat32, {int64_t{1} << 23});
  const std::span<float> values = tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int64_t>(i) * 7919 % kDifferent);
  Distortion distortion;
  const int64_t before = peak_kilobytes();
  distortion.update(tensor, tensor);
  EXPECT_EQ(distortion.distinct_values().size(), static_cast<size_t>(kDifferent));
  EXPECT_LT(peak_kilobytes() - before, 16 * 1024);
}

TEST(Distortion, MergedPartsAreTheWhole) {
  const std::vector<float> values = wave(200);
  const QuantSpec spec = parse_quant_spec_text("fixed:width=4,frac_width=3");
  const std::vector<float> head(values.begin(), values.begin() + 77);
  const std::vector<float> tail(values.begin() + 77, values.end());
  Distortion merged = measure_distortion(spec, tensor_of(head));
  merged.merge(measure_distortion(spec, tensor_of(tail)));
  const Distortion whole = measure_distortion(spec, tensor_of(values));
  EXPECT_EQ(merged.count(), whole.count());
  EXPECT_NEAR(merged.sqnr_db(), whole.sqnr_db(), 1e-9);
  EXPECT_EQ(merged.max_error(), whole.max_error());
  EXPECT_EQ(merged.zero_share(), whole.zero_share());
  EXPECT_EQ(merged.saturated_share(), whole.saturated_share());
  EXPECT_GT(whole.saturated_share().value_or(0), 0.0);
  EXPECT_EQ(merged.distinct_values().size(), whole.distinct_values().size());
}

TEST(Distortion, ThreadsChangeNothing) {
  const Tensor input = tensor_of(wave(300000));
  const QuantSpec spec = parse_quant_spec_text("fixed:width=8,frac_width=7");
  const int threads = thread_count();
  set_thread_count(1);
  const Distortion alone = measure_distortion(spec, input);
  set_thread_count(3);
  const Distortion shared = measure_distortion(spec, input);
  set_thread_count(threads);
  EXPECT_EQ(alone.mean_squared_error(), shared.mean_squared_error());
  EXPECT_EQ(alone.cosine(), shared.cosine());
  EXPECT_EQ(alone.saturated_share(), shared.saturated_share());
  EXPECT_EQ(alone.distinct_values().size(), shared.distinct_values().size());
}

TEST(Distortion, RefusesTensorsThatDoNotMatch) {
  Distortion d;
  EXPECT_THROW(d.update(tensor_of({1.0F}), tensor_of({1.0F, 2.0F})), Error);
  EXPECT_THROW(d.update(tensor_of({1.0F}), Tensor(DType::kInt8, {1})), Error);
}

TEST(DistinctValues, StopsCountingBeyondTheLimit) {
  DistinctValues values;
  for (size_t i = 0; i < DistinctValues::kLimit; ++i) values.insert(static_cast<float>(i));
  EXPECT_EQ(values.size(), DistinctValues::kLimit);
  EXPECT_FALSE(values.too_many());
  DistinctValues more;
  more.insert(-1.0F);
  more.merge(values);
  EXPECT_TRUE(more.too_many());
  EXPECT_EQ(more.size(), DistinctValues::kLimit + 1);
}

}  // namespace
}  // namespace detent
