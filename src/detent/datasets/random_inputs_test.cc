#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "detent/core/error_of_for_test.h"
#include "detent/datasets/datasets.h"
#include "detent/datasets/whole_samples.h"

namespace detent {
namespace {

using testing::Each;
using testing::HasSubstr;

SampleInput input_of(std::string name, DType dtype, Shape shape, Shape usual, int64_t below = 0) {
  return {std::move(name), dtype, std::move(shape), std::move(usual), below};
}

std::unique_ptr<Dataset> random_of(std::vector<SampleInput> inputs, Split split = Split::kTrain) {
  DatasetOptions options;
  options.inputs = std::move(inputs);
  return make_dataset("random", split, options);
}

std::vector<int64_t> all_of(const Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

TEST(RandomInputs, AreNormalInTheShapeOfTheNetwork) {
  const auto inputs = [] { return std::vector{input_of("x", DType::kFloat32, {-1, 3, -1}, {1, 3, 20})}; };
  const auto data = random_of(inputs());
  EXPECT_EQ(data->size(), 32);
  EXPECT_FALSE(data->has_labels());
  const Batch batch = data->batch(all_of(*data));
  ASSERT_EQ(batch.inputs[0].shape(), (Shape{32, 3, 20}));
  double sum = 0;
  double squares = 0;
  for (const float x : std::as_const(batch.inputs[0]).values<float>()) {
    sum += double{x};
    squares += double{x} * double{x};
  }
  EXPECT_NEAR(sum / 1920, 0, 0.1);
  EXPECT_NEAR(squares / 1920, 1, 0.1);
  EXPECT_TRUE(random_of(inputs())->batch(all_of(*data)).inputs[0].equals(batch.inputs[0]));
  EXPECT_FALSE(random_of(inputs(), Split::kTest)->batch(all_of(*data)).inputs[0].equals(batch.inputs[0]));
}

TEST(RandomInputs, TokensAreOfTheVocabularyAndAllAreSeen) {
  const auto data = random_of({input_of("input_ids", DType::kInt64, {-1, -1}, {1, 16}, 50),
                               input_of("attention_mask", DType::kInt64, {-1, -1}, {1, 16})});
  const Batch batch = data->batch(all_of(*data));
  const auto tokens = std::as_const(batch.inputs[0]).values<int64_t>();
  EXPECT_EQ(*std::ranges::min_element(tokens), 0);
  EXPECT_EQ(*std::ranges::max_element(tokens), 49);
  EXPECT_THAT(std::as_const(batch.inputs[1]).values<int64_t>(), Each(1));
}

TEST(RandomInputs, TakeFixedBatchesAndNumbers) {
  const auto data = random_of({input_of("x", DType::kFloat32, {1, 2}, {1, 2}),
                               input_of("state", DType::kFloat32, {2, 1, 4}, {2, 1, 4}),
                               input_of("rate", DType::kInt64, {}, {})});
  const Batch batch = data->batch(std::vector<int64_t>{3});
  EXPECT_EQ(batch.inputs[0].shape(), (Shape{1, 2}));
  EXPECT_EQ(batch.inputs[1].shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(batch.inputs[2].shape(), Shape{});
  const auto fixed = random_of({input_of("x", DType::kFloat32, {4, 2}, {4, 2})});
  EXPECT_EQ(fixed->batch(std::vector<int64_t>{0, 1, 2, 3}).inputs[0].shape(), (Shape{4, 2}));
}

TEST(RandomInputs, NeedANetwork) {
  EXPECT_THAT(error_of([] { random_of({}); }), HasSubstr("expected a loaded network"));
}

}  // namespace
}  // namespace detent
