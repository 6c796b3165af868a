#include "detent/kernels/normalization.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/formats/every_target_test.h"
#include "detent/kernels/row_reductions.h"

namespace detent {
namespace {

class RowKernels : public EveryTargetTest {};
DETENT_ON_EVERY_TARGET(RowKernels);

std::vector<float> normal_rows(size_t count, float mean = 0, float deviation = 1) {
  std::mt19937 generator(static_cast<uint32_t>(count));
  std::normal_distribution<float> draw(mean, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = draw(generator);
  return values;
}

constexpr size_t kLengths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 65, 192, 1000};

TEST_P(RowKernels, SoftmaxIsTheReference) {
  for (const size_t count : kLengths) {
    for (const bool log : {false, true}) {
      std::vector<float> values = normal_rows(5 * count, 0, 20);
      values[0] = -HUGE_VALF;
      values[count + 1] = count > 1 ? -200 : 1;
      std::vector<float> expected(values.size());
      softmax_reference(values, expected, static_cast<int64_t>(count), log);
      std::vector<float> results(values.size());
      softmax(values, results, static_cast<int64_t>(count), log);
      for (size_t i = count == 1 ? 1 : 0; i < values.size(); ++i)
        ASSERT_EQ(results[i], expected[i]) << count << " " << i;
      softmax(values, values, static_cast<int64_t>(count), log);
      for (size_t i = count == 1 ? 1 : 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], expected[i]) << "in place";
    }
  }
}

TEST_P(RowKernels, SoftmaxOfNaNAndOfInfinityIsNaN) {
  for (const float bad : {NAN, HUGE_VALF}) {
    std::vector<float> values = normal_rows(20);
    values[17] = bad;
    std::vector<float> results(20);
    softmax(values, results, 20, false);
    for (const float value : results) EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(RowKernels, NormsAreTheReference) {
  for (const size_t count : kLengths) {
    const std::vector<float> weight = normal_rows(count);
    const std::vector<float> bias = normal_rows(count + 1);
    const std::vector<float> values = normal_rows(3 * count, 5, 2);
    for (const bool has_weight : {false, true}) {
      for (const bool has_bias : {false, true}) {
        const RowNorm norm = {static_cast<int64_t>(count),
                              has_weight ? std::span(weight) : std::span<const float>(),
                              has_bias ? std::span(bias).first(count) : std::span<const float>(), 1e-5};
        std::vector<float> expected(values.size());
        std::vector<float> results(values.size());
        layer_norm_reference(norm, values, expected);
        layer_norm(norm, values, results);
        ASSERT_EQ(results, expected) << count;
        rms_norm_reference(norm, values, expected);
        rms_norm(norm, values, results);
        ASSERT_EQ(results, expected) << count;
      }
    }
    ASSERT_EQ(row_sum(values), row_sum_reference(values));
  }
}

TEST_P(RowKernels, NormsOfChannelsAreTheReference) {
  for (const int64_t positions : {1, 5, 16, 49}) {
    const std::vector<float> weight = normal_rows(6);
    const std::vector<float> bias = normal_rows(6, 1);
    const std::vector<float> var = {1, 2, 0.5F, 3, 1e-6F, 10};
    const std::vector<float> values = normal_rows(size_t{2} * 6 * static_cast<size_t>(positions));
    std::vector<float> expected(values.size());
    std::vector<float> results(values.size());
    for (const int64_t groups : {1, 2, 6}) {
      const ChannelNorm norm = {6, positions, groups, weight, bias, 1e-5};
      group_norm_reference(norm, values, expected);
      group_norm(norm, values, results);
      ASSERT_EQ(results, expected) << positions;
      batch_norm_reference(norm, bias, var, values, expected);
      batch_norm(norm, bias, var, values, results);
      ASSERT_EQ(results, expected) << positions;
    }
  }
}

/// But for what rounding the differences from the largest does to them.
TEST(Softmax, IsWithinAFewUnitsInTheLastPlace) {
  for (const size_t count : kLengths) {
    const std::vector<float> values = normal_rows(count, 0, 5);
    std::vector<float> shares(count);
    std::vector<float> logs(count);
    softmax(values, shares, static_cast<int64_t>(count), false);
    softmax(values, logs, static_cast<int64_t>(count), true);
    const float largest = *std::ranges::max_element(values);
    long double sum = 0;
    for (const float x : values) sum += std::exp(static_cast<long double>(x));
    for (size_t i = 0; i < count; ++i) {
      const long double exact = std::exp(static_cast<long double>(values[i])) / sum;
      EXPECT_LT(std::fabs(shares[i] / exact - 1), 4e-7L + (largest - values[i]) * 0x1p-24L) << count;
      EXPECT_LT(std::fabs(logs[i] - std::log(exact)), 2e-6L) << count;
    }
  }
}

/// A large mean takes nothing off the variance.
TEST(LayerNorm, IsExactFarFromZero) {
  for (const float mean : {0.0F, 100.0F, 1e6F}) {
    std::vector<float> values = normal_rows(192, mean, 3);
    std::vector<float> results(values.size());
    layer_norm({192, {}, {}, 1e-6}, values, results);
    const long double sum = std::accumulate(values.begin(), values.end(), 0.0L);
    long double squares = 0;
    for (const float x : values) squares += (x - sum / 192) * (x - sum / 192);
    const long double deviation = std::sqrt(squares / 192 + 1e-6L);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_LT(std::fabs(results[i] - (values[i] - sum / 192) / deviation), 1e-6L) << mean;
  }
}

TEST(LayerNorm, OfEqualValuesIsTheBias) {
  const std::vector<float> bias = normal_rows(40);
  const std::vector<float> values(80, 123.456F);
  std::vector<float> results(80);
  layer_norm({40, {}, bias, 1e-5}, values, results);
  for (size_t i = 0; i < 80; ++i) EXPECT_EQ(results[i], bias[i % 40]);
}

TEST(RowNorms, ThreadsDoNotChangeABit) {
  const int before = thread_count();
  const std::vector<float> values = normal_rows(size_t{200} * 300);
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 3}) {
    set_thread_count(threads);
    auto& all = results.emplace_back(2 * values.size());
    softmax(values, std::span(all).first(values.size()), 300, false);
    layer_norm({300, {}, {}, 1e-5}, values, std::span(all).subspan(values.size()));
  }
  set_thread_count(before);
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace detent
