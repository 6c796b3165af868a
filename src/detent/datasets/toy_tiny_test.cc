#include "detent/datasets/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace detent {
namespace {

using testing::ElementsAre;

Batch whole(const Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return dataset.batch(indices);
}

TEST(ToyTiny, TrainingRowsAreNumpys) {
  const auto dataset = make_dataset("toy-tiny", Split::kTrain);
  ASSERT_EQ(dataset->size(), 512);
  const Batch batch = whole(*dataset);
  EXPECT_EQ(batch.inputs[0].shape(), (Shape{512, 1, 2, 2}));
  const auto inputs = batch.inputs[0].values<float>();
  EXPECT_EQ(inputs[0], static_cast<float>((0.5488135039273248 - 0.5) * 10));
  // MASE's 10240-sample version scales by 2 where the tutorial's scales by 10.
  constexpr double kMaseRows[] = {0.09762701, 0.43037873, 0.20552675,  0.08976637,
                                  -0.1526904, 0.29178823, -0.12482558, 0.783546};
  for (size_t i = 0; i < std::size(kMaseRows); ++i) EXPECT_NEAR(inputs[i], 5 * kMaseRows[i], 5e-7) << i;
  EXPECT_THAT(dataset->labels().first(8), ElementsAre(1, 1, 1, 0, 1, 1, 0, 0));
}

TEST(ToyTiny, SplitsDifferAndAreBalanced) {
  std::vector<Tensor> inputs;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest, Split::kPrediction}) {
    const auto dataset = make_dataset("toy_tiny", split);
    const int64_t positive = std::accumulate(dataset->labels().begin(), dataset->labels().end(), int64_t{0});
    EXPECT_GT(positive, 200) << split_name(split);
    EXPECT_LT(positive, 312) << split_name(split);
    inputs.push_back(whole(*dataset).inputs[0]);
    for (size_t i = 0; i + 1 < inputs.size(); ++i) EXPECT_FALSE(inputs[i].equals(inputs.back()));
  }
}

TEST(ToyTiny, LabelIsTheSignOfTheSum) {
  const Batch batch = whole(*make_dataset("toy_tiny", Split::kTest));
  const auto inputs = batch.inputs[0].values<float>();
  const auto labels = batch.labels.values<int64_t>();
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto point = inputs.subspan(4 * i, 4);
    EXPECT_EQ(labels[i], std::accumulate(point.begin(), point.end(), 0.0) > 0 ? 1 : 0) << i;
  }
}

}  // namespace
}  // namespace detent
