#include "detent/statistics/distribution.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(DistributionsOfResults, TakesEachPartFromItsStatistic) {
  const Table results = {
      {"range_min_max", Table{{"min", -1.0}, {"max", 2}}},
      {"variance_online", Table{{"mean", 0.5}, {"variance", 4.0}}},
      {"average_range", Table{{"min", -0.5}, {"max", 1.5}}},
      {"histogram", Table{{"edges", List{-1.0, -0.5, 0.5, 1.0, 2.0}}, {"counts", List{3, 5, 0, 1}}}},
      {"kurtosis", Table{{"kurtosis", 3.0}}}};
  const std::vector<Distribution> parts = distributions_of_results(results, "");
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].range->low, -1);
  EXPECT_EQ(parts[0].range->high, 2);
  EXPECT_EQ(parts[0].mean, 0.5);
  EXPECT_EQ(parts[0].variance, 4.0);
  EXPECT_EQ(parts[0].average_range->high, 1.5);
  EXPECT_EQ(parts[0].bins, (std::vector<Distribution::Bin>{{-0.75F, 3}, {0, 5}, {1.5F, 1}}));
}

TEST(DistributionsOfResults, OneForEachKeptPosition) {
  const Table results = {
      {"range_min_max", Table{{"min", List{List{1.0, 2.0}}}, {"max", List{List{3.0, 4.0}}}}},
      {"histogram",
       Table{{"edges", List{List{List{0, 1}, List{0, 2}}}}, {"counts", List{List{List{7}, List{8}}}}}}};
  const std::vector<Distribution> parts = distributions_of_results(results, "");
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1].range->low, 2);
  EXPECT_EQ(parts[1].count(), 8);
}

TEST(DistributionsOfResults, NotAvailableIsAbsent) {
  const Table results = {{"variance_precise", Table{{"mean", Value()}, {"variance", Value()}}}};
  EXPECT_EQ(distributions_of_results(results, "").front().mean, std::nullopt);
}

TEST(DistributionsOfResults, RefusesWhatTheStatisticsDoNotWrite) {
  const auto expect = [](const Table& results, const char* message) {
    EXPECT_THAT([&] { distributions_of_results(results, "stats.toml"); },
                ThrowsMessage<Error>(HasSubstr(message)));
  };
  expect({{"range_min_max", 3}}, "stats.toml, statistic range_min_max: got 3, expected a table");
  expect({{"range_min_max", Table{{"min", 3}}}}, "key \"max\" is missing");
  expect({{"range_min_max", Table{{"min", "x"}, {"max", 3}}}}, "\"min\": got \"x\", expected numbers");
  expect({{"histogram", Table{{"edges", List{0, 1}}, {"counts", List{1, 2}}}}}, "2 counts and 2 edges");
  expect({{"histogram", Table{{"edges", List{1, 0}}, {"counts", List{1}}}}}, "ascending");
  expect({{"histogram", Table{{"edges", List{0, 1}}, {"counts", List{-1}}}}}, "got a count of -1.0");
  expect({{"histogram", Table{{"edges", List{0, 1}}, {"counts", List{HUGE_VAL}}}}}, "got a count of inf");
  expect({{"histogram", Table{{"edges", List{0, 1, 2}}, {"counts", List{0x1p53, 0x1p53}}}}}, "in all");
  expect({{"histogram", Table{{"edges", List{0, 1}}, {"counts", List{1e300}}}}}, "got a count of 1e+300");
  expect({{"histogram", Table{{"edges", List{0, HUGE_VAL}}, {"counts", List{1}}}}}, "ascending and finite");
  expect({{"histogram", Table{{"edges", List{std::nan(""), 1}}, {"counts", List{1}}}}}, "expected numbers");
  expect({{"range_min_max", Table{{"min", std::nan("")}, {"max", 3}}}}, "got nan, expected numbers");
  expect({{"variance_online", Table{{"mean", 1}, {"variance", -1.0}}}}, "got a variance of -1.0");
  expect({{"range_min_max", Table{{"min", List{1, 2}}, {"max", List{1, 2}}}},
          {"variance_online", Table{{"mean", 1}, {"variance", 1}}}},
         "1 kept positions, but range_min_max has 2");
}

}  // namespace
}  // namespace detent
