#include "detent/statistics/collector.h"

#include <algorithm>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/statistics/results_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

Table only(std::string_view name, const Table& options = {}) {
  Table statistics;
  statistics[name] = options;
  return statistics;
}

TEST(Moments, WorkedExamples) {
  EXPECT_EQ(value_text(result_of("mean", {}, two_samples())), "{mean = 1.4375, count = 8}");
  EXPECT_EQ(value_text(result_of("abs_mean", {}, two_samples())), "{abs_mean = 2.6875, count = 8}");
  for (const char* name : {"variance_online", "variance_precise"}) {
    const Table all = result_of(name, {}, two_samples());
    EXPECT_DOUBLE_EQ(number(all, "mean"), 1.4375);
    EXPECT_DOUBLE_EQ(number(all, "variance"), 10.33984375);  // population: 11.816964... * 7 / 8
    EXPECT_EQ(value_text(result_of(name, {{"dims", "none"}}, two_samples())),
              "{mean = [0.75, 0.5, 2.5, 2.0], variance = [0.0625, 2.25, 0.25, 36.0], count = 2}");
  }
  EXPECT_EQ(value_text(result_of("absmax", {{"dims", "none"}}, two_samples())),
            "{absmax = [1.0, 2.0, 3.0, 8.0], count = 2}");
  EXPECT_EQ(value_text(result_of("average_range", {}, two_samples())),
            "{min = -2.5, max = 5.5, range = 8.0, count = 2}");
  EXPECT_EQ(value_text(result_of("average_range", {{"abs", true}}, two_samples())),
            "{min = 0.75, max = 6.0, range = 5.25, count = 2}");
  EXPECT_EQ(value_text(result_of("zero_share", {}, {batch({1, 4}, {0, -0.0F, 1, 2})})),
            "{zero_share = 0.5, count = 4}");
  const Table sigma = result_of("range_n_sigma", {{"num_sigma", 2}}, {batch({1, 2}, {1, 3})});
  EXPECT_EQ(value_text(sigma), "{min = 0.0, max = 4.0, range = 4.0, count = 2}");
}

TEST(Moments, KurtosisOfKnownDistributions) {
  EXPECT_DOUBLE_EQ(number(result_of("kurtosis", {}, {batch({1, 2}, {-1, 1})}), "kurtosis"), 1);
  EXPECT_EQ(number(result_of("kurtosis", {}, {batch({1, 3}, {7, 7, 7})}), "kurtosis"), 0);
  // 0 nine times and 10 once, shifted: m = 1, variance = 9, fourth moment = (9 * 1 + 9^4) / 10 = 657
  EXPECT_NEAR(
      number(result_of("kurtosis", {}, {batch({1, 10}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 10})}), "kurtosis"),
      657.0 / 81, 1e-12);
}

/// Central moments of nearly equal values: exact in float64, as they have one exponent.
struct CentralMoments {
  double variance = 0;
  double kurtosis = 0;

  explicit CentralMoments(const std::vector<float>& values) {
    const auto n = static_cast<long double>(values.size());
    long double mean = 0;
    for (const float value : values) mean += (static_cast<long double>(value) - values.front()) / n;
    long double squares = 0;
    long double fourths = 0;
    for (const float value : values) {
      const long double distance = static_cast<long double>(value) - values.front() - mean;
      squares += distance * distance;
      fourths += distance * distance * distance * distance;
    }
    variance = static_cast<double>(squares / n);
    kurtosis = static_cast<double>(n * fourths / (squares * squares));
  }
};

TEST(Moments, DoNotCancelInNearlyEqualValues) {
  for (const float base : {1.0F, -3e38F, 1e-30F, 1e20F}) {
    std::vector<float> values(1000, base);
    values[1] = std::nextafter(base, 0.0F);
    values[2] = std::nextafter(values[1], 0.0F);
    const CentralMoments expected(values);
    const std::vector<Tensor> batches = {batch({1, 1000}, values)};
    EXPECT_DOUBLE_EQ(number(result_of("variance_precise", {}, batches), "variance"), expected.variance);
    EXPECT_DOUBLE_EQ(number(result_of("kurtosis", {}, batches), "kurtosis"), expected.kurtosis) << base;
  }
  // One of 2^18 values differs by one in 2^23: squared mean and mean square agree in 60 bits.
  std::vector<float> values(size_t{1} << 18, 1.0F);
  values.back() = std::nextafter(1.0F, 2.0F);
  const double share = 0x1p-18;
  EXPECT_DOUBLE_EQ(number(result_of("kurtosis", {}, {batch({1, 1 << 18}, values)}), "kurtosis"),
                   (1 - 3 * share * (1 - share)) / (share * (1 - share)));
}

TEST(Moments, SpecialValuesAreCountedAndLeftOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<Tensor> batches = {batch({1, 4}, {1, nan, infinity, 3})};
  for (const char* name : {"mean", "abs_mean"}) {
    const Table table = result_of(name, {}, batches);
    EXPECT_EQ(number(table, name), 2) << name;
    EXPECT_EQ(number(table, "nan_count"), 1);
    EXPECT_EQ(number(table, "infinity_count"), 1);
  }
  Collector no_finite(only("mean"), "test");
  no_finite.update(batch({1, 2}, {nan, infinity}));
  try {
    no_finite.result("mean");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("mean: no finite value was seen"));
  }
}

/// Values over the whole range of float32, so that rounded sums would depend on their order.
std::vector<float> wild_moments(size_t count) {
  std::mt19937 generator(7);
  std::vector<float> values(count);
  for (float& value : values) {
    do {
      value = std::bit_cast<float>(static_cast<uint32_t>(generator()));
    } while (!std::isfinite(value));
  }
  return values;
}

TEST(Moments, AreTheSameToTheLastBitForAnyCutAndOrder) {
  std::vector<float> values = wild_moments(20000);
  for (const char* name :
       {"mean", "abs_mean", "variance_online", "range_n_sigma", "kurtosis", "absmax", "zero_share"}) {
    const Table whole = result_of(name, {}, {batch({static_cast<int64_t>(values.size())}, values)});
    std::mt19937 generator(3);
    for (int trial = 0; trial < 5; ++trial) {
      std::ranges::shuffle(values, generator);
      std::vector<Collector> parts;
      for (size_t begin = 0; begin < values.size();) {
        const size_t end = std::min(values.size(), begin + 1 + generator() % 5000);
        parts.emplace_back(only(name), "test")
            .update(batch({static_cast<int64_t>(end - begin)},
                          {values.begin() + static_cast<std::ptrdiff_t>(begin),
                           values.begin() + static_cast<std::ptrdiff_t>(end)}));
        begin = end;
      }
      std::ranges::shuffle(parts, generator);
      for (size_t i = 1; i < parts.size(); ++i) parts[0].merge(parts[i]);
      EXPECT_EQ(parts[0].result(name), whole) << name;
    }
  }
}

TEST(ExactSum, IsExactWhereDoubleIsNot) {
  ExactSum sum;
  sum.add(0x1p100F);
  sum.add(0x1p-140F);
  sum.add(-0x1p100F);
  EXPECT_EQ(static_cast<double>(sum.value()), 0x1p-140);
  EXPECT_EQ(static_cast<double>(sum.magnitudes()), 0x1p101);
  for (int i = 0; i < 1000; ++i) sum.add(-0x1p-130F);
  EXPECT_EQ(static_cast<double>(sum.value()), 0x1p-140 - 1000 * 0x1p-130);
}

}  // namespace
}  // namespace detent
