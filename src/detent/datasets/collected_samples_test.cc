#include "detent/datasets/collected_samples.h"

#include <filesystem>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CollectedSamples empty_samples(std::vector<SampleInput> inputs = {{"x", DType::kFloat32, {}}}) {
  return {std::move(inputs), std::filesystem::temp_directory_path(), "samples"};
}

/// Rows [begin, end) of counting numbers.
Tensor counted(int64_t begin, int64_t end, int64_t width) {
  Tensor tensor(DType::kFloat32, {end - begin, width});
  std::iota(tensor.values<float>().begin(), tensor.values<float>().end(), static_cast<float>(begin * width));
  return tensor;
}

TEST(CollectedSamples, AreTheSameHoweverTheyWereCut) {
  constexpr int64_t kSamples = 40;
  constexpr int64_t kWidth = 300'000;  // more than one block
  CollectedSamples at_once = empty_samples();
  CollectedSamples one_by_one = empty_samples();
  at_once.add(std::vector{counted(0, kSamples, kWidth)});
  for (int64_t i = 0; i < kSamples; ++i) one_by_one.add(std::vector{counted(i, i + 1, kWidth)});
  const auto whole = at_once.finish(0);
  const auto parts = one_by_one.finish(0);
  ASSERT_EQ(whole->size(), kSamples);
  EXPECT_EQ(whole->sample_shape(), Shape{kWidth});
  EXPECT_FALSE(whole->has_labels());
  const std::vector<int64_t> some = {39, 0, 17, 17};
  const Tensor expected = whole->batch(some).inputs[0];
  EXPECT_TRUE(parts->batch(some).inputs[0].equals(expected));
  EXPECT_EQ(expected.rows(2, 3).values<float>()[0], 17.0F * kWidth);
}

TEST(CollectedSamples, KeepLabelsAndSeveralInputs) {
  CollectedSamples samples = empty_samples({{"x", DType::kFloat32, {}}, {"ids", DType::kInt64, {}}});
  const auto ids = Tensor::from<int64_t>({2, 3}, std::vector<int64_t>{1, 2, 3, 4, 5, 6});
  samples.add(std::vector{counted(0, 2, 2), ids}, std::vector<int64_t>{4, 0});
  const auto dataset = samples.finish(5);
  const Batch batch = dataset->batch(std::vector<int64_t>{1});
  EXPECT_THAT(batch.inputs[0].values<float>(), ElementsAre(2, 3));
  EXPECT_THAT(batch.inputs[1].values<int64_t>(), ElementsAre(4, 5, 6));
  EXPECT_THAT(dataset->labels(), ElementsAre(4, 0));
}

TEST(CollectedSamples, MayHaveSeveralSizes) {
  CollectedSamples samples = empty_samples();
  samples.add(std::vector{counted(0, 2, 2)});
  samples.add(std::vector{counted(0, 1, 3)});
  const auto dataset = samples.finish(0);
  EXPECT_EQ(dataset->size_count(), 2);
  EXPECT_THAT(dataset->batch(std::vector<int64_t>{2}).inputs[0].values<float>(), ElementsAre(0, 1, 2));
}

/// Recurrent layers' states begin with the layers, and a number is one for all samples.
TEST(CollectedSamples, MayBeWholeInputs) {
  CollectedSamples samples(
      {{"x", DType::kFloat32, {}}, {"state", DType::kFloat32, {}}, {"rate", DType::kInt64, {}}},
      std::filesystem::temp_directory_path(), "samples", {-1, 2, 0});
  const Tensor rate = Tensor::from<int64_t>({}, std::vector<int64_t>{16000});
  samples.add(std::vector{counted(0, 3, 2), counted(0, 2, 1), rate});
  samples.add(std::vector{counted(0, 2, 2), counted(0, 4, 1), rate});  // two samples
  EXPECT_THAT(error_of([&] {
                samples.add(std::vector{counted(0, 3, 2), counted(0, 4, 1), rate});
              }),
              HasSubstr("input x: got [3, 2], expected rows of 2 samples"));
  EXPECT_THAT(error_of([&] {
                samples.add(std::vector{counted(0, 1, 2), counted(0, 3, 1), rate});
              }),
              HasSubstr("input state: got 3 rows, expected 2 a sample"));
  EXPECT_THAT(error_of([&] {
                samples.add(std::vector{counted(0, 1, 2), counted(0, 2, 1), Tensor(DType::kInt64, {2})});
              }),
              HasSubstr("input rate: got [2], expected one number"));
  const auto dataset = samples.finish(0);
  ASSERT_EQ(dataset->size(), 3);
  const std::vector<Tensor> first = dataset->batch(std::vector<int64_t>{0}).inputs;
  EXPECT_EQ(first[0].shape(), (Shape{3, 2}));
  EXPECT_EQ(first[1].shape(), (Shape{2, 1}));
  EXPECT_EQ(first[2].shape(), Shape{});
  const std::vector<Tensor> last = dataset->batch(std::vector<int64_t>{2}).inputs;
  EXPECT_THAT(last[0].values<float>(), ElementsAre(2, 3));
  EXPECT_THAT(last[1].values<float>(), ElementsAre(2, 3));
  EXPECT_THAT(last[2].values<int64_t>(), ElementsAre(16000));
}

/// Functions and points where each is known, of sizes with names of their own.
TEST(CollectedSamples, AreOneWhereSizesOfOtherNamesDiffer) {
  CollectedSamples samples({{"u", DType::kFloat32, {}}, {"y", DType::kFloat32, {}}},
                           std::filesystem::temp_directory_path(), "samples",
                           {1, CollectedSamples::kOwnRows});
  samples.add(std::vector{counted(0, 2, 3), counted(0, 4, 1)});
  samples.add(std::vector{counted(0, 2, 3), counted(0, 2, 1)});  // two samples
  const auto dataset = samples.finish(0);
  ASSERT_EQ(dataset->size(), 3);
  const std::vector<Tensor> whole = dataset->batch(std::vector<int64_t>{0}).inputs;
  EXPECT_EQ(whole[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(whole[1].shape(), (Shape{4, 1}));
  EXPECT_EQ(dataset->batch(std::vector<int64_t>{2}).inputs[1].shape(), (Shape{1, 1}));
}

TEST(CollectedSamples, RefuseWhatIsNoSample) {
  CollectedSamples samples = empty_samples();
  const auto error_of_add = [&](const std::vector<Tensor>& batch, const std::vector<int64_t>& labels = {}) {
    return error_of([&] { samples.add(batch, labels); });
  };
  EXPECT_THAT(error_of([&] { samples.finish(0); }), HasSubstr("got no samples"));
  EXPECT_THAT(error_of_add({}), HasSubstr("got 0 inputs, expected 1"));
  EXPECT_THAT(error_of_add({Tensor(DType::kUInt8, {1, 2})}), HasSubstr("input x: got uint8"));
  EXPECT_THAT(error_of_add({Tensor(DType::kFloat32, {})}), HasSubstr("single number"));
  EXPECT_THAT(error_of_add({Tensor::from<float>({1, 1}, std::vector<float>{NAN})}), HasSubstr("got NaN"));
  EXPECT_THAT(error_of_add({counted(0, 1, 1)}, {-1}), HasSubstr("label -1"));
  EXPECT_THAT(error_of_add({counted(0, 1, 1)}, {1, 2}), HasSubstr("2 labels of 1 samples"));
  samples.add(std::vector{counted(0, 1, 1)}, std::vector<int64_t>{7});
  EXPECT_THAT(error_of_add({counted(0, 1, 1)}), HasSubstr("got no label"));
  EXPECT_THAT(error_of([&] { samples.finish(7); }), HasSubstr("got the label 7, expected one less than 7"));
}

}  // namespace
}  // namespace detent
