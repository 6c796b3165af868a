// Statistics of the distribution of values and of samples: quantiles and histograms beyond their exact
// budget, records, outlier channels, ranges by sample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/core/parallel.h"
#include "detent/statistics/collector.h"
#include "detent/statistics/results_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

Table result_of_one(std::string_view name, const Table& options, const Tensor& values) {
  Collector collector = collector_of_one(name, options);
  collector.update(values);
  return collector.result(name);
}

/// Values of very different sizes and both signs.
Tensor log_normal(int64_t count) {
  std::mt19937 generator(4);
  std::normal_distribution<float> normal;
  Tensor values(DType::kFloat32, {count});
  for (float& value : values.values<float>())
    value = std::exp(3 * normal(generator)) * (generator() % 2 == 0 ? 1.0F : -1.0F);
  return values;
}

TEST(RangeQuantile, IsExactUpToItsBudgetAndBoundedBeyond) {
  const Tensor values = log_normal(5000);
  for (const bool abs : {false, true}) {
    for (const double quantile : {0.5, 0.9, 0.975, 0.9999, 1.0}) {
      Table options = {{"quantile", quantile}, {"abs", abs}, {"exact_values", 5000}};
      const Table exact = result_of_one("range_quantile", options, values);
      EXPECT_FALSE(exact.contains("relative_error"));
      options["exact_values"] = 4999;
      for (const int bits : {12, 16, 20}) {
        options["key_bits"] = bits;
        const Table bounded = result_of_one("range_quantile", options, values);
        const double error = number(bounded, "relative_error");
        EXPECT_EQ(error, std::ldexp(1, 8 - bits));
        for (const char* key : {"min", "max"}) {
          // Between two order statistics of one sign, which each have that error.
          const double expected = number(exact, key);
          EXPECT_NEAR(number(bounded, key), expected, std::fabs(expected) * error * 1.001) << key << quantile;
        }
      }
    }
  }
}

TEST(RangeQuantile, OfEverythingIsExactInEitherForm) {
  const Table options = {{"quantile", 1.0}, {"exact_values", 0}};
  const Tensor values = log_normal(3000);
  const auto all = values.values<float>();
  const Table range = result_of_one("range_quantile", options, values);
  EXPECT_EQ(number(range, "min"), double{*std::ranges::min_element(all)});
  EXPECT_EQ(number(range, "max"), double{*std::ranges::max_element(all)});
}

TEST(RangeQuantile, SeesZerosAndInfinitiesInEitherForm) {
  std::vector<float> values(100, 0.0F);
  for (size_t i = 0; i < 10; ++i) values[i] = kInf;
  for (size_t i = 10; i < 20; ++i) values[i] = -kInf;
  values[20] = kNotANumber;
  for (const int64_t exact_values : {0, 1000}) {
    Table options = {{"quantile", 0.95}, {"exact_values", exact_values}};
    Table range = result_of_one("range_quantile", options, batch({100}, values));
    EXPECT_EQ(number(range, "min"), -double{kInf});
    EXPECT_EQ(number(range, "max"), double{kInf});
    EXPECT_EQ(number(range, "count"), 100);
    options["quantile"] = 0.8;
    range = result_of_one("range_quantile", options, batch({100}, values));
    EXPECT_EQ(number(range, "min"), 0);
    EXPECT_EQ(number(range, "max"), 0);
    options["abs"] = true;
    options["quantile"] = 0.9;
    EXPECT_EQ(number(result_of_one("range_quantile", options, batch({100}, values)), "max"), double{kInf});
  }
}

TEST(RangeQuantile, OfSubnormalAndHugeValues) {
  const std::vector<float> values = {1e-45F, 2e-45F, 1e-40F, -3e-45F, 3e38F, -3e38F, 1.0F};
  for (const int64_t exact_values : {0, 1000}) {
    const Table options = {{"quantile", 0.5}, {"exact_values", exact_values}};
    EXPECT_NEAR(number(result_of_one("range_quantile", options, batch({7}, values)), "max"), 2e-45, 0x1p-138);
  }
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Bytes on the heap after `batches` batches of 2^18 normal values.
size_t memory_after(const Table& statistics, int batches) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  Tensor values(DType::kFloat32, {256, 64, 16});
  for (float& value : values.values<float>()) value = normal(generator);
  Collector(statistics, "test").update(values);  // each thread keeps its KeyCounter
  const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  Collector collector(statistics, "test");
  for (int i = 0; i < batches; ++i) collector.update(values);
  return mallinfo2().uordblks + mallinfo2().hblkhd - before;
}

TEST(Memory, DoesNotGrowWithTheData) {
  const Table everything = {{"range_min_max", Table{}},
                            {"variance_online", Table{}},
                            {"kurtosis", Table{}},
                            {"range_quantile", Table{}},
                            {"histogram", Table{}}};
  const int threads = thread_count();
  set_thread_count(1);  // else a thread may get its KeyCounter later than others
  EXPECT_LT(memory_after(everything, 16), size_t{1} << 19);
  EXPECT_LT(memory_after(everything, 32), size_t{1} << 19);
  // 64 channels: 1 KiB for each binade and channel, some 25 of them; sums and the rest 1 KiB a channel.
  const Table dims = {{"dims", List{0, 2}}};
  EXPECT_LT(memory_after({{"range_quantile", dims}, {"variance_online", dims}}, 16), size_t{2} << 20);
  set_thread_count(threads);
}
#endif

TEST(Histogram, CountsBetweenEvenEdges) {
  const Tensor values = batch({9}, {0, 1, 2, 3, 4, 4, kNotANumber, kInf, 0.999F});
  EXPECT_EQ(value_text(result_of_one("histogram", {{"bins", 4}}, values)),
            "{edges = [0.0, 1.0, 2.0, 3.0, 4.0], counts = [2, 1, 1, 3], count = 9, nan_count = 1, "
            "infinity_count = 1}");
  EXPECT_EQ(value_text(result_of_one("histogram", {{"bins", 2}, {"abs", true}}, batch({4}, {-1, 1, -3, 2}))),
            "{edges = [1.0, 2.0, 3.0], counts = [2, 2], count = 4}");
  EXPECT_EQ(value_text(result_of_one("histogram", {}, batch({2}, {5, 5}))),
            "{edges = [5.0, 5.0], counts = [2], count = 2}");
  EXPECT_EQ(
      value_text(result_of_one("histogram", {{"bins", 2}, {"dims", "none"}}, batch({2, 2}, {1, 7, 3, 7}))),
      "{edges = [[1.0, 2.0, 3.0], [7.0, 7.0]], counts = [[1, 1], [2]], count = 2}");
}

TEST(Histogram, BeyondTheBudgetMovesValuesOnlyNearEdges) {
  const Tensor values = log_normal(5000);
  const Table exact = result_of_one("histogram", {{"bins", 50}}, values);
  const Table bounded = result_of_one("histogram", {{"bins", 50}, {"exact_values", 0}}, values);
  EXPECT_EQ(*bounded.find("edges"), *exact.find("edges"));
  const double error = number(bounded, "relative_error");
  EXPECT_EQ(error, 0x1p-12);
  const List& edges = *exact.find("edges")->get_if<List>();
  // Values up to an edge, counted exactly, between those up to it with the error on either side.
  int64_t below = 0;
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    below += *(*bounded.find("counts")->get_if<List>())[i].get_if<int64_t>();
    const double edge = *edges[i + 1].get_if<double>();
    const double slack = std::fabs(edge) * error * 1.001;
    const auto upto = [&](double limit) {
      return std::ranges::count_if(values.values<float>(),
                                   [&](float value) { return double{value} < limit; });
    };
    EXPECT_LE(upto(edge - slack), below);
    EXPECT_GE(i + 2 < edges.size() ? upto(edge + slack) : 5000, below);
  }
  EXPECT_EQ(below, 5000);
}

TEST(Record, GivesTheSamplesInTheOrderOfTheirIndices) {
  Collector collector = collector_of_one("record", {});
  collector.update(batch({1, 2}, {5, 6}), 2);
  collector.update(batch({2, 2}, {1, 2, 3, 4}), 0);
  EXPECT_EQ(value_text(collector.result("record")),
            "{data = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], count = 3, size_in_bytes = 24}");
}

TEST(Record, WithoutIndicesIsOrderedByValues) {
  Collector one = collector_of_one("record", {});
  Collector two = collector_of_one("record", {});
  one.update(batch({2, 1}, {2, 1}));
  two.update(batch({1, 1}, {1}));
  two.update(batch({1, 1}, {2}));
  EXPECT_EQ(one.result("record"), two.result("record"));
}

TEST(Record, StopsAtItsBudgetAndAtOtherShapes) {
  Collector collector = collector_of_one("record", {{"max_bytes", 16}});
  collector.update(batch({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(error_of([&] {
              collector.update(batch({1, 2}, {5, 6}));
            }),
            "record: got 24 bytes of values, expected at most max_bytes = 16");
  Collector other = collector_of_one("record", {{"max_bytes", 16}});
  other.update(batch({1, 2}, {5, 6}));
  EXPECT_THAT(error_of([&] { collector.merge(other); }), HasSubstr("got 24 bytes"));
  EXPECT_THAT(error_of([&] {
                other.update(batch({1, 1}, {5}));
              }),
              HasSubstr("got samples of shape [1] after"));
  EXPECT_EQ(*collector.result("record").find("count"), Value(2));
}

TEST(OutlierChannels, AreFarAboveTheMedian) {
  const Tensor values = batch({2, 4}, {1, -13, 2, 0, 0.5F, 3, -2, 1.5F});  // absmax 1, 13, 2, 1.5
  EXPECT_EQ(value_text(result_of_one("outlier_channels", {}, values)),
            "{outlier_channels = [1], absmax_median = 1.75, largest_ratio = 7.428571428571429, count = 2}");
  EXPECT_EQ(value_text(result_of_one("outlier_channels", {{"factor", 8}}, values)),
            "{outlier_channels = [], absmax_median = 1.75, largest_ratio = 7.428571428571429, count = 2}");
  EXPECT_EQ(value_text(result_of_one("outlier_channels", {}, batch({1, 3}, {0, 0, 1}))),
            "{outlier_channels = [2], absmax_median = 0.0, largest_ratio = NA, count = 1}");
  // The same channels of an image, and of its last dimension.
  EXPECT_EQ(
      *result_of_one("outlier_channels", {}, batch({1, 3, 2}, {1, 1, 1, 9, 1, 1})).find("outlier_channels"),
      Value(List{1}));
  const Table last = {{"dims", Table{{"keep", List{-1}}}}};
  EXPECT_EQ(*result_of_one("outlier_channels", last, batch({1, 1, 3}, {1, 1, 9})).find("outlier_channels"),
            Value(List{2}));
}

TEST(AverageRange, OfKeptPositions) {
  const Tensor values = batch({2, 2, 2}, {1, 2, 3, -4, 5, 0, kNotANumber, 7});
  EXPECT_EQ(value_text(result_of_one("average_range", {{"dims", List{2}}}, values)),
            "{min = [0.5, 1.5], max = [3.5, 5.0], range = [3.0, 3.5], count = [2, 2], nan_count = 1}");
  EXPECT_EQ(value_text(result_of_one("average_range", {{"dims", List{2}}, {"abs", true}}, values)),
            "{min = [0.5, 5.0], max = [3.5, 5.5], range = [3.0, 0.5], count = [2, 2], nan_count = 1}");
}

TEST(Dims, KeepIsTheOppositeOfAList) {
  const Tensor values = batch({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(result_of_one("range_min_max", {{"dims", Table{{"keep", List{1}}}}}, values),
            result_of_one("range_min_max", {{"dims", List{0, 2}}}, values));
  EXPECT_THAT(error_of([&] {
                collector_of_one("mean", {{"dims", Table{{"kept", List{1}}}}});
              }),
              HasSubstr("got {kept = [1]}, expected \"all\""));
}

}  // namespace
}  // namespace detent
