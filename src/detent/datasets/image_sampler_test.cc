#include "detent/datasets/image_dataset.h"

#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Levels of 0 to 255 stay what they are.
const Normalisation kAsIs = {{0}, {1 / 255.0F}};

DatasetOptions with(const ImageTransforms& transforms, int64_t seed = 0) {
  return {.data_dir = {}, .transforms = transforms, .seed = seed};
}

/// One channel, level (y, x) = 10 * y + x + 1.
struct Picture {
  Picture(int64_t height, int64_t width) : view{{}, height, width, height * width, width} {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) pixels.push_back(static_cast<uint8_t>(10 * y + x + 1));
    }
    view.pixels = pixels;
  }
  std::vector<uint8_t> pixels;
  ImageView view;
};

std::vector<int> rounded(const std::vector<float>& values) {
  std::vector<int> result;
  for (const float value : values) result.push_back(static_cast<int>(std::lround(value)));
  return result;
}

std::vector<int> evaluated(const Picture& picture, const ImageTransforms& transforms) {
  const ImageSampler sampler(ImageSize{picture.view.height, picture.view.width}, kAsIs, with(transforms));
  std::vector<float> sample(static_cast<size_t>(element_count(sampler.sample_shape())));
  sampler.sample(picture.view, sample);
  return rounded(sample);
}

std::vector<int> trained(const Picture& picture, const ImageTransforms& transforms, int64_t index,
                         int64_t epoch, int64_t seed = 0) {
  const ImageSampler sampler(ImageSize{picture.view.height, picture.view.width}, kAsIs,
                             with(transforms, seed));
  std::vector<float> sample(static_cast<size_t>(element_count(sampler.sample_shape())));
  sampler.training_sample(picture.view, index, epoch, sample);
  return rounded(sample);
}

TEST(ImageSampler, CutsTheMiddle) {
  const Picture picture(4, 5);
  // Margins 2 and 3; half of 3 is rounded to even.
  EXPECT_THAT(evaluated(picture, {.center_crop = 2}), ElementsAre(13, 14, 23, 24));
  EXPECT_THAT(evaluated(picture, {}), ElementsAreArray(picture.pixels));
  EXPECT_THAT(trained(picture, {.center_crop = 2}, 0, 1), ElementsAre(13, 14, 23, 24));
}

TEST(ImageSampler, MirrorsItsShareWhileTraining) {
  const Picture picture(1, 3);
  int mirrored = 0;
  for (int64_t index = 0; index < 1000; ++index) {
    const std::vector<int> sample = trained(picture, {.horizontal_flip = 0.25}, index, 1);
    const bool is_mirrored = sample.front() == 3;
    EXPECT_EQ(sample, is_mirrored ? std::vector<int>({3, 2, 1}) : std::vector<int>({1, 2, 3}));
    mirrored += is_mirrored ? 1 : 0;
  }
  EXPECT_NEAR(mirrored, 250, 60);
  EXPECT_THAT(evaluated(picture, {.horizontal_flip = 1}), ElementsAre(1, 2, 3));
  EXPECT_THAT(trained(picture, {.horizontal_flip = 1}, 7, 1), ElementsAre(3, 2, 1));
  EXPECT_THAT(trained(picture, {.horizontal_flip = 0}, 7, 1), ElementsAre(1, 2, 3));
}

TEST(ImageSampler, CutsEveryPlaceOfThePaddedImageEquallyOften) {
  const Picture picture(2, 2);
  std::map<std::vector<int>, int> counts;
  for (int64_t index = 0; index < 9000; ++index)
    ++counts[trained(picture, {.random_crop = true, .crop_padding = 1}, index, 3)];
  ASSERT_EQ(counts.size(), 9U);
  for (const auto& [sample, count] : counts) EXPECT_NEAR(count, 1000, 130);
  EXPECT_TRUE(counts.contains({0, 0, 0, 1}));    // up and left
  EXPECT_TRUE(counts.contains({12, 0, 0, 0}));   // down and right
  EXPECT_TRUE(counts.contains({2, 0, 12, 0}));   // right
  EXPECT_TRUE(counts.contains({1, 2, 11, 12}));  // nowhere
}

TEST(ImageSampler, CutsAreOfTheSizeThatIsEvaluated) {
  const Picture picture(4, 4);
  std::map<int, int> first;
  for (int64_t index = 0; index < 500; ++index)
    ++first[trained(picture, {.center_crop = 3, .random_crop = true}, index, 1).front()];
  EXPECT_THAT(first, ElementsAre(testing::Key(1), testing::Key(2), testing::Key(11), testing::Key(12)));
}

TEST(ImageSampler, DependsOnSeedEpochAndIndexOnly) {
  const Picture picture(6, 6);
  const ImageTransforms transforms = {.random_crop = true, .crop_padding = 3, .horizontal_flip = 0.5};
  EXPECT_EQ(trained(picture, transforms, 5, 2, 1), trained(picture, transforms, 5, 2, 1));
  const auto differ = [&](int64_t index, int64_t epoch, int64_t seed) {
    int different = 0;
    for (int64_t i = 0; i < 20; ++i) {
      different +=
          trained(picture, transforms, i, 2, 1) != trained(picture, transforms, i + index, epoch, seed) ? 1
                                                                                                        : 0;
    }
    return different;
  };
  EXPECT_EQ(differ(0, 2, 1), 0);
  EXPECT_GT(differ(100, 2, 1), 15);
  EXPECT_GT(differ(0, 3, 1), 15);
  EXPECT_GT(differ(0, 2, 2), 15);
  // The numbers themselves are a promise: a training that is repeated by a later version sees the same.
  const ImageTransforms pixel = {.center_crop = 1, .random_crop = true};
  std::vector<int> drawn;  // as a program in Python computes them
  for (const auto& [index, epoch, seed] : std::vector<std::array<int64_t, 3>>{
           {0, 1, 0}, {1, 1, 0}, {2, 1, 0}, {0, 2, 0}, {59999, 90, 1234567890123}}) {
    drawn.push_back(trained(Picture(1, 8), pixel, index, epoch, seed).front());
  }
  EXPECT_THAT(drawn, ElementsAre(2, 8, 8, 6, 2));
}

TEST(ImageSampler, ScalesFirst) {
  // 2x4 levels of which each 2x2 quarter is even: scaled to 1x2 and back to these.
  Picture picture(2, 4);
  picture.pixels = {7, 7, 90, 90, 7, 7, 90, 90};
  picture.view.pixels = picture.pixels;
  const ImageSampler halved(ImageSize{2, 4}, kAsIs, with({.resize = 1}));
  EXPECT_EQ(halved.sample_shape(), (Shape{1, 1, 2}));
  const std::vector<int> scaled = evaluated(picture, {.resize = 1});
  EXPECT_NEAR(scaled[0], 7, 15);  // the filter is wider than the quarter
  EXPECT_NEAR(scaled[1], 90, 15);
  EXPECT_EQ(evaluated(picture, {.resize = 6}).size(), 72U);
  EXPECT_THAT(evaluated(picture, {.resize = 2}), ElementsAreArray(picture.pixels));
  EXPECT_THAT(evaluated(picture, {.resize = 6, .center_crop = 1}).size(), 1U);
}

TEST(ImageSampler, OfImagesOfAnySizeIsTheCut) {
  const ImageSampler sampler(std::nullopt, kAsIs, with({.center_crop = 2}));
  EXPECT_EQ(sampler.sample_shape(), (Shape{1, 2, 2}));
  std::vector<float> sample(4);
  sampler.sample(Picture(3, 5).view, sample);
  EXPECT_THAT(rounded(sample), ElementsAre(3, 4, 13, 14));  // margins 1 and 3: halves to even
  EXPECT_THAT([&] { sampler.sample(Picture(1, 5).view, sample); },
              ThrowsMessage<Error>(HasSubstr("an image of 1x5 is too small to cut 2x2 from it")));
}

TEST(ImageSampler, NormalisesByChannelAndReadsOtherLayouts) {
  const RgbImage image{1, 2, {255, 0, 51, 51, 255, 0}};
  const Normalisation own = {{0.5F, 0.25F, 0}, {0.5F, 0.25F, 1}};
  std::vector<float> sample(6);
  const auto near = [](float value) { return testing::FloatNear(value, 1e-6F); };
  ImageSampler(ImageSize{1, 2}, own, {}).sample(view_of(image), sample);
  EXPECT_THAT(sample, ElementsAre(1, near(-0.6F), -1, 3, near(0.2F), 0));
  const ImageTransforms given = {.image_mean = {{0.0}}, .image_std = {{1.0, 0.5, 0.25}}};
  ImageSampler(ImageSize{1, 2}, own, with(given)).sample(view_of(image), sample);
  EXPECT_THAT(sample, ElementsAre(1, near(0.2F), 0, 2, near(0.8F), 0));
}

TEST(ImageSampler, RefusesWhatDoesNotFit) {
  const auto error = [](const ImageTransforms& transforms, const char* message) {
    EXPECT_THAT(
        [&] {
          ImageSampler(ImageSize{4, 6}, {{0, 0, 0}, {1, 1, 1}}, with(transforms));
        },
        ThrowsMessage<Error>(HasSubstr(message)));
  };
  error({.center_crop = 5}, "center_crop: got 5, but the images are 4x6");
  error({.crop_padding = 1}, "crop_padding: got 1 without random_crop");
  error({.random_crop = true}, "random_crop: there is one place only");
  error({.image_mean = {{0.5, 0.5}}}, "image_mean: got 2 numbers, expected one, or 3");
}

TEST(ImageTransforms, AreForDataSetsOfImages) {
  EXPECT_THAT([] { make_dataset("toy_tiny", Split::kTrain, with({.horizontal_flip = 0.5})); },
              ThrowsMessage<Error>(AllOf(HasSubstr("horizontal_flip: got 0.5"), HasSubstr("\"toy_tiny\""),
                                         HasSubstr("no images"))));
}

TEST(ImageDatasets, TransformTheirSamplesByEpoch) {
  Tensor images(DType::kUInt8, {2, 1, 3, 3});
  std::iota(images.values<uint8_t>().begin(), images.values<uint8_t>().end(), uint8_t{1});
  const ImageTransforms transforms = {.center_crop = 1, .random_crop = true};
  const ImageDataset dataset(images, {0, 1}, 2, kAsIs, with(transforms), "a test");
  EXPECT_EQ(dataset.sample_shape(), (Shape{1, 1, 1}));
  const std::vector<int64_t> both = {0, 1};
  const Batch middle = dataset.batch(both);
  EXPECT_THAT(middle.inputs[0].values<float>(),
              ElementsAre(testing::FloatNear(5, 1e-4F), testing::FloatNear(14, 1e-4F)));
  std::map<int64_t, int> seen;
  for (int64_t epoch = 1; epoch <= 100; ++epoch) {
    const Batch batch = dataset.batch(both, epoch);
    ++seen[std::lround(batch.inputs[0].values<float>()[1])];
    EXPECT_TRUE(batch.inputs[0].equals(dataset.batch(both, epoch).inputs[0]));
  }
  EXPECT_EQ(seen.size(), 9U);
  EXPECT_THAT(
      [&] {
        ImageDataset(images, {0, 1}, 2, kAsIs, with({.center_crop = 9}), "a test");
      },
      ThrowsMessage<Error>(HasSubstr("a test: center_crop: got 9")));
}

/// A sample that cannot be read.
class BrokenDataset final : public Dataset {
 public:
  BrokenDataset() : Dataset({1}, 2, {0, 1, 0}, "a folder") {}

 private:
  void copy_sample(int64_t index, std::span<float> target) const override {
    if (index == 2) fail("c.png is no image");
    target[0] = 0;
  }
};

TEST(Datasets, NameTheSampleThatCannotBeLoaded) {
  const BrokenDataset dataset;
  EXPECT_THAT(
      [&] {
        dataset.batch(std::vector<int64_t>{0, 2});
      },
      ThrowsMessage<Error>("a folder: sample 2: c.png is no image"));
}

}  // namespace
}  // namespace detent
