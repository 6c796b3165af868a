#include "detent/datasets/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace detent {
namespace {

/// Every image of a split as a list of its pixels.
std::vector<std::vector<float>> images_of(Split split) {
  const auto dataset = make_dataset("digits", split);
  std::vector<std::vector<float>> images;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const Tensor input = dataset->batch(std::span(&i, 1)).inputs[0];
    images.emplace_back(input.values<float>().begin(), input.values<float>().end());
  }
  return images;
}

TEST(Digits, SplitSizes) {
  EXPECT_EQ(make_dataset("digits", Split::kTrain)->size(), 1077);
  EXPECT_EQ(make_dataset("digits", Split::kValidation)->size(), 360);
  EXPECT_EQ(make_dataset("digits", Split::kTest)->size(), 360);
  EXPECT_EQ(images_of(Split::kPrediction), images_of(Split::kTest));
}

TEST(Digits, SplitsAreDisjoint) {
  std::set<std::vector<float>> seen;
  size_t count = 0;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const auto images = images_of(split);
    count += images.size();
    seen.insert(images.begin(), images.end());
  }
  EXPECT_EQ(count, 1797U);
  EXPECT_EQ(seen.size(), count);  // no two images of the set are equal
}

TEST(Digits, FirstImagesAreTheFiles) {
  const auto test = images_of(Split::kTest);
  const std::vector<float> row = {0, 0, 5 / 16.0F, 13 / 16.0F, 9 / 16.0F, 1 / 16.0F, 0, 0};
  EXPECT_EQ(std::vector<float>(test[0].begin(), test[0].begin() + 8), row);
  EXPECT_EQ(make_dataset("digits", Split::kTest)->labels()[0], 0);
  EXPECT_EQ(make_dataset("digits", Split::kValidation)->labels()[0], 1);
  EXPECT_EQ(make_dataset("digits", Split::kTrain)->labels()[0], 2);
}

TEST(Digits, PixelsAndLabelsAreInRange) {
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const auto dataset = make_dataset("digits", split);
    std::vector<int64_t> histogram(10);
    for (const int64_t label : dataset->labels()) ++histogram.at(static_cast<size_t>(label));
    const auto [fewest, most] = std::minmax_element(histogram.begin(), histogram.end());
    EXPECT_GT(*fewest, dataset->size() / 20) << split_name(split);
    EXPECT_LT(*most, dataset->size() / 5) << split_name(split);
    for (const auto& image : images_of(split)) {
      for (const float pixel : image) {
        ASSERT_TRUE(pixel >= 0 && pixel <= 1 &&
                    pixel * 16 == static_cast<float>(static_cast<int>(pixel * 16)));
      }
    }
  }
}

}  // namespace
}  // namespace detent
