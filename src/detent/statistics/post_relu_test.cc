// A collector beside others sees what it sees alone, to the last bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "detent/core/parallel.h"
#include "detent/statistics/collector.h"

namespace detent {
namespace {

/// Every statistic but record, in its ways of reducing and keeping values.
Table recorded_with(const Value& dims, int64_t exact_values) {
  Table statistics;
  for (const StatisticInfo& statistic : all_statistics()) {
    if (statistic.name == "record") continue;
    Table& options = statistics.table(statistic.name);
    for (const FieldDescription& field : statistic.options) {
      if (field.name == "dims") options["dims"] = dims;
      if (field.name == "exact_values") options["exact_values"] = exact_values;
    }
  }
  return statistics;
}

Tensor relu_of(const Tensor& values) {
  Tensor result = values.clone();
  for (float& value : result.values<float>()) value = value < 0 ? 0 : value;
  return result;
}

/// Normal values, some zeros, and where `wild`, any bits.
Tensor some_values(Shape shape, bool wild, uint32_t seed) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (float& value : tensor.values<float>()) {
    const auto bits = static_cast<uint32_t>(generator());
    value = bits % 16 == 0 ? -0.0F : wild && bits % 4 == 0 ? std::bit_cast<float>(bits) : normal(generator);
    if (wild && bits % 64 == 1) value = std::copysign(std::numeric_limits<float>::infinity(), value);
  }
  return tensor;
}

void expect_post_relu(const Table& statistics, const std::vector<Tensor>& batches) {
  Collector plain(statistics, "test");
  Collector post_relu(statistics, "test");
  Collector expected_plain(statistics, "test");
  Collector expected_post_relu(statistics, "test");
  for (const Tensor& batch : batches) {
    plain.update_with_post_relu(batch, post_relu);
    expected_plain.update(batch);
    expected_post_relu.update(relu_of(batch));
  }
  EXPECT_TRUE(plain.serialize() == expected_plain.serialize());
  EXPECT_TRUE(post_relu.serialize() == expected_post_relu.serialize());
}

class Rectified : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_thread_count(GetParam()); }
  void TearDown() override { set_thread_count(threads_); }

 private:
  int threads_ = thread_count();
};

TEST_P(Rectified, EqualsACollectorOfRectifiedValues) {
  for (const bool wild : {false, true}) {
    for (const Shape& shape :
         {Shape{5, 3, 50, 20}, Shape{3, 7}, Shape{64, 40}, Shape{2, 3, 8, 8}, Shape{0, 4}}) {
      const std::vector<Tensor> batches = {some_values(shape, wild, 1), some_values(shape, wild, 2)};
      const Value channels = Table{{"keep", List{1}}};
      for (const Value& dims : {Value("all"), Value("none"), channels, Value(List{1})}) {
        for (const int64_t exact_values : {0, 1000, 1 << 20}) {
          SCOPED_TRACE(shape_text(shape) + " " + value_text(dims) + (wild ? " wild" : ""));
          expect_post_relu(recorded_with(dims, exact_values), batches);
        }
      }
    }
  }
}

TEST_P(Rectified, OfMoreValuesThanAThreadTakes) {
  expect_post_relu(recorded_with("all", 1 << 16),
                   {some_values({7, 3, 200, 100}, true, 3), some_values({1, 9}, true, 4)});
}

INSTANTIATE_TEST_SUITE_P(Threads, Rectified, testing::Values(1, 4));

TEST(Rectified, OfOneSignAndOfNothingFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  for (const std::vector<float>& values : {std::vector<float>{1, 2, 3},
                                           {-1, -2},
                                           {-kInfinity},
                                           {kInfinity, nan},
                                           {nan},
                                           {0},
                                           {-1e-45F, 1e-45F}}) {
    const Tensor batch = Tensor::from({static_cast<int64_t>(values.size())}, values);
    expect_post_relu(recorded_with("all", 0), {batch});
    expect_post_relu(recorded_with("all", 100), {batch, batch});
  }
}

TEST(Rectified, NeedsATwinThatHasSeenAsMuchAndRecordsNothing) {
  const Tensor values = some_values({3, 4}, false, 5);
  Collector plain({{"mean", Table{}}}, "test");
  Collector post_relu({{"mean", Table{}}}, "test");
  post_relu.update(values);
  EXPECT_THROW(plain.update_with_post_relu(values, post_relu), CheckFailure);
  Collector other({{"absmax", Table{}}}, "test");
  EXPECT_THROW(plain.update_with_post_relu(values, other), CheckFailure);
  Collector recording({{"record", Table{}}}, "test");
  Collector recording_post_relu({{"record", Table{}}}, "test");
  EXPECT_TRUE(recording.records());
  EXPECT_FALSE(plain.records());
  EXPECT_TRUE(plain.takes_any_order());
  EXPECT_FALSE(recording.takes_any_order());
  EXPECT_FALSE(Collector({{"range_min_max", Table{{"dims", "none"}}}}, "test").takes_any_order());
  EXPECT_THROW(recording.update_with_post_relu(values, recording_post_relu), CheckFailure);
}

}  // namespace
}  // namespace detent
