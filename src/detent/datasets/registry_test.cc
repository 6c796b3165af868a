#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "detent/datasets/dataset.h"

namespace detent {
namespace {

using testing::HasSubstr;

TEST(Datasets, NamesAreUniqueAndDescribed) {
  std::set<std::string> names;
  for (const DatasetInfo& info : all_datasets()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    for (const std::string& alias : info.aliases) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
      EXPECT_EQ(&dataset_info(alias), &info);
    }
    EXPECT_FALSE(info.help.empty());
    EXPECT_EQ(info.task, "classification");
    const bool of_the_user = info.attribution.empty() && info.name != "toy_tiny";
    EXPECT_EQ(info.sample_shape.size(), of_the_user ? 0U : 3U);
    EXPECT_EQ(info.class_count >= 2, !of_the_user);
    EXPECT_EQ(&dataset_info(info.name), &info);
  }
}

TEST(Datasets, UnknownNameSuggestsTheNearest) {
  try {
    make_dataset("minst", Split::kTrain);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("unknown data set \"minst\": did you mean \"mnist\"?"));
  }
}

TEST(Datasets, ThoseWithoutFilesAgreeWithTheirInfo) {
  for (const char* name : {"toy_tiny", "digits"}) {
    const DatasetInfo& info = dataset_info(name);
    for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest, Split::kPrediction}) {
      SCOPED_TRACE(fmt::format("{} {}", name, split_name(split)));
      const auto dataset = make_dataset(name, split);
      EXPECT_EQ(dataset->sample_shape(), info.sample_shape);
      EXPECT_EQ(dataset->class_count(), info.class_count);
      EXPECT_GT(dataset->size(), 0);
      EXPECT_EQ(dataset->size(), static_cast<int64_t>(dataset->labels().size()));
    }
  }
}

TEST(Datasets, BatchesKeepTheOrderAskedFor) {
  const auto dataset = make_dataset("digits", Split::kTrain);
  const std::vector<int64_t> indices = {7, 3, 7};
  const Batch batch = dataset->batch(indices);
  EXPECT_EQ(batch.inputs[0].shape(), (Shape{3, 1, 8, 8}));
  EXPECT_EQ(batch.labels.shape(), Shape{3});
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    const Batch single = dataset->batch(std::span(indices).subspan(i, 1));
    EXPECT_TRUE(batch.inputs[0].rows(row, row + 1).equals(single.inputs[0]));
    EXPECT_EQ(batch.labels.values<int64_t>()[i], dataset->labels()[static_cast<size_t>(indices[i])]);
  }
  EXPECT_EQ(dataset->batch({}).inputs[0].shape(), (Shape{0, 1, 8, 8}));
}

TEST(Datasets, IndicesOutsideAreBugs) {
  const auto dataset = make_dataset("toy_tiny", Split::kTrain);
  for (const int64_t index : {int64_t{-1}, dataset->size()}) {
    EXPECT_THROW(dataset->batch(std::span(&index, 1)), CheckFailure);
  }
}

}  // namespace
}  // namespace detent
