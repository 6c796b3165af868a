#include "detent/core/sanitizers_for_test.h"
#include "detent/statistics/collector.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detent/core/error_of_for_test.h"
#include "detent/core/parallel.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/statistics/results_for_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A collector of one statistic.
class One {
 public:
  explicit One(std::string_view name, const Table& options = {})
      : name_(name), collector_(table(name, options), "test") {}

  void update(const Tensor& batch) { collector_.update(batch); }
  void merge(const One& other) { collector_.merge(other.collector_); }
  Table result() const { return collector_.result(name_); }

 private:
  static Table table(std::string_view name, const Table& options) {
    Table statistics;
    statistics[name] = options;
    return statistics;
  }
  std::string name_;
  Collector collector_;
};
std::unique_ptr<One> collector(std::string_view name, const Table& options = {}) {
  return std::make_unique<One>(name, options);
}

Table range(Value min, Value max, Value width, int64_t count) {
  return {{"min", std::move(min)}, {"max", std::move(max)}, {"range", std::move(width)}, {"count", count}};
}

List floats(std::initializer_list<double> values) { return List(values.begin(), values.end()); }

/// Pseudorandom but fixed, with ties and zeros of both signs.
Tensor many_values(Shape shape) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  uint32_t state = 1;
  for (float& value : tensor.values<float>()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(state >> 20) - 2048) * (state & 1024U ? 0.125F : -0.0F);
  }
  return tensor;
}

TEST(RangeMinMax, WorkedExamples) {
  EXPECT_EQ(result_of("range_min_max", {}, two_samples()), range(-4.0, 8.0, 12.0, 8));
  EXPECT_EQ(result_of("range_min_max", {{"abs", true}}, two_samples()), range(0.5, 8.0, 7.5, 8));
}

TEST(RangeQuantile, WorkedExamples) {
  const Table wide = result_of("range_quantile", {}, two_samples());
  EXPECT_EQ(wide, range(double{-3.4749999046F}, double{7.1250014305F}, double{10.6000013351F}, 8));
  EXPECT_EQ(result_of("range_quantile", {{"quantile", 0.5}}, two_samples()), range(1.5, 1.5, 0.0, 8));
  EXPECT_EQ(result_of("range_quantile", {{"quantile", 1}}, two_samples()), range(-4.0, 8.0, 12.0, 8));
}

TEST(Dims, NoneKeepsThePositionsOfASample) {
  const Table expected = range(floats({0.5, -1, 2, -4}), floats({1, 2, 3, 8}), floats({0.5, 3, 1, 12}), 2);
  for (const Value& none : {Value("none"), Value(), Value(List{}), Value(List{0})}) {
    EXPECT_EQ(result_of("range_min_max", {{"dims", none}}, two_samples()), expected) << value_text(none);
    EXPECT_EQ(result_of("range_quantile", {{"dims", none}, {"quantile", 1.0}}, two_samples()), expected);
  }
}

TEST(Dims, AListReducesWithinAndKeepsTheRest) {
  const Tensor values = batch({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Table rows = range(floats({1, 3}), floats({6, 8}), floats({5, 5}), 4);
  EXPECT_EQ(result_of("range_min_max", {{"dims", List{2}}}, {values}), rows);
  EXPECT_EQ(result_of("range_min_max", {{"dims", List{-1}}}, {values}), rows);
  EXPECT_EQ(result_of("range_min_max", {{"dims", List{1}}}, {values}),
            range(floats({1, 2}), floats({7, 8}), floats({6, 6}), 4));
  EXPECT_EQ(result_of("range_min_max", {{"dims", List{1, 2}}}, {values}), range(1.0, 8.0, 7.0, 8));
  const Table nested = result_of("range_min_max", {{"dims", "none"}}, {values});
  EXPECT_EQ(*nested.find("min"), Value(List{floats({1, 2}), floats({3, 4})}));
}

/// As a quantizer with granularity "group" cuts a sample.
TEST(Dims, GroupsAreThoseOfTheFormats) {
  const Tensor values = many_values({3, 4, 6, 2});
  for (const auto& [axis, size] : {std::pair(1, 4), std::pair(1, 12), std::pair(2, 4), std::pair(-1, 8)}) {
    const int64_t of_sample = axis < 0 ? axis : axis - 1;
    const QuantSpec spec =
        parse_quant_spec_text(fmt::format("int4:granularity=group,group_size={},axis={}", size, of_sample));
    const Grouping grouping = make_grouping(spec, {4, 6, 2});
    std::vector<float> least(static_cast<size_t>(grouping.groups()), kInf);
    for (int64_t i = 0; i < values.numel(); ++i) {
      float& of_group = least[static_cast<size_t>(grouping.group_of(i % 48))];
      of_group = std::min(of_group, values.values<float>()[static_cast<size_t>(i)]);
    }
    const Table result =
        result_of("range_min_max", {{"dims", Table{{"group_size", size}, {"axis", axis}}}}, {values});
    EXPECT_EQ(*result.find("group_size"), Value(size));
    EXPECT_EQ(*result.find("count"), Value(3 * size));
    std::vector<float> found;
    for (const Value& channel : *result.find("min")->get_if<List>()) {
      for (const Value& group : *channel.get_if<List>()) {
        found.push_back(static_cast<float>(*group.get_if<double>()));
      }
    }
    EXPECT_EQ(found, least) << axis << " " << size;
  }
}

TEST(Dims, GroupsNameWhatDoesNotFit) {
  const auto with = [](int64_t size, int64_t axis) {
    return error_of([&] {
      result_of("range_min_max", {{"dims", Table{{"group_size", size}, {"axis", axis}}}},
                {many_values({2, 3, 5})});
    });
  };
  EXPECT_THAT(with(2, 1),
              HasSubstr("got group_size = 2, but 5 elements of a sample of shape [3, 5] share a place of "
                        "dimension 1: expected a divisor of that"));
  EXPECT_THAT(with(5, 0),
              HasSubstr("got axis = 0, but a batch has 3 dimensions, the first of samples: expected 1"));
  EXPECT_THAT(with(5, 3), HasSubstr("got axis = 3"));
  EXPECT_THAT(with(0, 1), HasSubstr("key \"dims\": got"));
  EXPECT_THAT(error_of([] {
                collector("range_min_max", {{"dims", Table{{"group_size", 4}}}});
              }),
              HasSubstr("axis = a dimension"));
}

TEST(Dims, ErrorsNameTheKeyAndTheShape) {
  const auto with = [](const Value& dims) {
    return error_of([&] { collector("range_min_max", {{"dims", dims}}); });
  };
  EXPECT_EQ(with("some"),
            "test: range_min_max: key \"dims\": got \"some\", expected \"all\", \"none\", a list of "
            "dimensions, {keep = a list of dimensions}, or {group_size = a number, axis = a dimension}");
  EXPECT_THAT(with(List{1.5}), HasSubstr("key \"dims\": got [1.5]"));
  EXPECT_THAT(error_of([] {
                result_of("range_quantile", {{"dims", List{2}}}, two_samples());
              }),
              HasSubstr("got 2, but a batch has 2 dimensions: expected at least -2 and below 2"));
  const auto grow = [] {
    result_of("range_min_max", {{"dims", "none"}}, {batch({1, 2}, {1, 2}), batch({1, 3}, {1, 2, 3})});
  };
  EXPECT_THAT(error_of(grow), HasSubstr("got samples of shape [3] after samples of shape [2]"));
}

class EveryCollector : public testing::TestWithParam<std::string> {
 protected:
  /// For data of any rank.
  Table any_rank() const { return GetParam() == "outlier_channels" ? Table{{"dims", "all"}} : Table{}; }
};

TEST_P(EveryCollector, DoesNotDependOnHowValuesWereCut) {
  const Tensor values = many_values({60, 5, 7});
  const bool keeps_positions = GetParam() != "record";
  for (const Value& dims : {Value("all"), Value("none"), Value(List{1})}) {
    const Table options = keeps_positions ? Table{{"dims", dims}} : Table{};
    const Table whole = result_of(GetParam(), options, {values});
    const auto backwards = collector(GetParam(), options);
    for (int64_t i = 60; i > 0; --i) backwards->update(values.rows(i - 1, i));
    EXPECT_EQ(backwards->result(), whole);

    const auto left = collector(GetParam(), options);
    const auto right = collector(GetParam(), options);
    const auto untouched = collector(GetParam(), options);
    left->update(values.rows(0, 13));
    right->update(values.rows(13, 60));
    right->merge(*left);
    right->merge(*untouched);
    untouched->merge(*right);
    EXPECT_EQ(right->result(), whole);
    EXPECT_EQ(untouched->result(), whole);
  }
}

TEST_P(EveryCollector, DoesNotDependOnThreads) {
  const Tensor values = many_values({fewer_under_sanitizers(1 << 20)});
  const int threads = thread_count();
  set_thread_count(1);
  const Table one = result_of(GetParam(), any_rank(), {values});
  set_thread_count(4);
  EXPECT_EQ(result_of(GetParam(), any_rank(), {values}), one);
  set_thread_count(threads);
}

TEST_P(EveryCollector, CountsNanAndInfinities) {
  const Table table = result_of(GetParam(), any_rank(), {batch({4}, {1, kNotANumber, -kInf, kNotANumber})});
  const std::vector<std::string> keys = table.keys();
  ASSERT_GE(keys.size(), 4U);
  EXPECT_THAT(std::vector<std::string>(keys.end() - 2, keys.end()),
              ElementsAre("nan_count", "infinity_count"));
  EXPECT_EQ(*table.find("nan_count"), Value(2));
  EXPECT_EQ(*table.find("infinity_count"), Value(1));
  // average_range counts samples that have a range.
  EXPECT_EQ(*table.find("count"), Value(GetParam() == "average_range" ? 1 : 4));
}

TEST_P(EveryCollector, TheSignOfZeroDoesNotDependOnOrder) {
  if (GetParam() == "record") return;  // the values as they were
  for (const auto& values : {std::vector<float>{0.0F, -0.0F}, std::vector<float>{-0.0F, 0.0F}}) {
    for (const auto& [key, value] : result_of(GetParam(), any_rank(), {batch({2}, values)})) {
      EXPECT_EQ(value_text(value).find('-'), std::string::npos) << key;
    }
  }
}

TEST_P(EveryCollector, EdgesOfInput) {
  EXPECT_THAT(error_of([&] { collector(GetParam(), any_rank())->result(); }),
              HasSubstr(GetParam() + ": no value was seen"));
  EXPECT_THAT(error_of([&] {
                result_of(GetParam(), any_rank(), {batch({0, 3}, {})});
              }),
              HasSubstr("no value was seen"));
  EXPECT_THAT(error_of([&] {
                result_of(GetParam(), any_rank(), {batch({2}, {kNotANumber, kNotANumber})});
              }),
              HasSubstr(" was seen"));
  EXPECT_EQ(*result_of(GetParam(), any_rank(), {batch({}, {3})}).find("count"), Value(1));
  EXPECT_EQ(*result_of(GetParam(), any_rank(), {batch({3, 1}, {3, kNotANumber, 4})}).find("nan_count"),
            Value(1));
  EXPECT_EQ(*result_of(GetParam(), any_rank(), {batch({3, 1}, {3, kInf, 4})}).find("infinity_count"),
            Value(1));
  EXPECT_THAT(error_of([&] { result_of(GetParam(), any_rank(), {Tensor(DType::kInt8, {2})}); }),
              HasSubstr("got a tensor of int8"));
}

TEST_P(EveryCollector, MergesAsIfItHadSeenEverything) {
  const Tensor values = many_values({24, 5});
  const Table whole = result_of(GetParam(), any_rank(), {values});
  for (const int64_t cut : {0, 1, 7, 24}) {
    const auto first = collector(GetParam(), any_rank());
    const auto second = collector(GetParam(), any_rank());
    second->update(values.rows(0, cut));
    first->update(values.rows(cut, 24));
    first->merge(*second);
    EXPECT_EQ(first->result(), whole) << cut;
  }
}

TEST(Collector, SaysWhatLeadsToNothingButNan) {
  EXPECT_EQ(error_of([] {
              result_of("range_min_max", {}, {batch({2}, {kNotANumber, kNotANumber})});
            }),
            "range_min_max: only NaN was seen, which infinite samples and overflow lead to");
}

TEST(KeptPositions, WithNothingButNanAreNamed) {
  for (const StatisticInfo& each : all_statistics()) {
    if (each.name == "record") continue;  // keeps none
    EXPECT_THAT(error_of([&] {
                  result_of(each.name, {{"dims", "none"}}, {batch({1, 2}, {1, kNotANumber})});
                }),
                HasSubstr("only NaN was seen at kept position 1 of 2"))
        << each.name;
  }
}

TEST(Ranges, OfOneValueAndOfInfinities) {
  for (const char* name : {"range_min_max", "range_quantile"}) {
    EXPECT_EQ(result_of(name, {}, {batch({}, {3})}), range(3.0, 3.0, 0.0, 1));
    EXPECT_EQ(*result_of(name, {}, {batch({2}, {kInf, kInf})}).find("range"), Value());
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryCollector, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const StatisticInfo& each : all_statistics()) names.push_back(each.name);
                           return names;
                         }()),
                         [](const auto& instance) { return instance.param; });

TEST(Registry, NamesOptionsAndErrors) {
  const auto descriptions = all_statistics();
  ASSERT_GE(descriptions.size(), 2U);
  EXPECT_EQ(descriptions[1].options[2].name, "quantile");
  EXPECT_EQ(descriptions[1].options[0].default_value, "\"all\"");
  EXPECT_THAT(error_of([] { collector("range_minmax"); }), HasSubstr("did you mean \"range_min_max\"?"));
  EXPECT_THAT(error_of([] { collector("range_min_max", {{"quantile", 0.9}}); }), HasSubstr("unknown key"));
  EXPECT_THAT(error_of([] { collector("range_quantile", {{"quantile", 0.4}}); }), HasSubstr("at least 0.5"));
}

TEST(Merging, DifferentCollectorsIsABug) {
  const auto a = collector("range_min_max");
  const auto b = collector("range_quantile");
  const auto c = collector("range_min_max", {{"abs", true}});
  EXPECT_THROW(a->merge(*b), CheckFailure);
  EXPECT_THROW(a->merge(*c), CheckFailure);
  EXPECT_THROW(a->merge(*a), CheckFailure);
}

// Statistics that look at extremes alone get the values in pieces, after the others.
TEST(Collector, StatisticsOfChannelsAreTheSameWithOthers) {
  Table statistics;
  for (const char* name : {"outlier_channels", "average_range", "kurtosis", "histogram"})
    statistics.table(name);
  statistics.table("range_min_max")["dims"] = Table{{"keep", List{2}}};
  for (const Shape& shape : {Shape{7, 3, 100, 100}, Shape{1, 2, 5}, Shape{0, 3, 4}, Shape{300, 2, 20, 20}}) {
    Tensor values(DType::kFloat32, shape);
    float next = -1;
    for (float& value : values.values<float>()) value = next = next > 1 ? -next : next * 1.001F + 0.001F;
    Collector all(statistics, "test");
    all.update(values);
    Collector post_relu(statistics, "test");
    Collector twice(statistics, "test");
    twice.update_with_post_relu(values, post_relu);
    for (float& value : values.values<float>()) value = std::max(value, 0.0F);
    Collector of_positive(statistics, "test");
    of_positive.update(values);
    EXPECT_EQ(twice.serialize(), all.serialize());
    EXPECT_EQ(post_relu.serialize(), of_positive.serialize());
    for (const auto& [name, options] : statistics) {
      Table alone;
      alone[name] = options;
      Collector one(alone, "test");
      for (int64_t i = 0; i < values.dim(0); ++i) one.update(values.rows(i, i + 1));
      if (values.numel() == 0) continue;
      EXPECT_EQ(value_text(one.result(name)), value_text(of_positive.result(name))) << name;
    }
  }
}

}  // namespace
}  // namespace detent
