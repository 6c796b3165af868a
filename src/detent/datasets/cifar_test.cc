#include "detent/datasets/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/core/log.h"
#include "detent/datasets/published_data_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kPixels = int64_t{3} * 32 * 32;

class CifarFiles : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(directory_); }

  /// Zeros: the disk does not hold them.
  void write_zeros(const std::string& name, int64_t size) {
    const fs::path path = directory_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path).close();
    fs::resize_file(path, static_cast<uintmax_t>(size));
  }

  void overwrite(const std::string& name, int64_t position, const std::string& bytes) {
    std::fstream file(directory_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(position);
    file << bytes;
  }

  std::string message_of(const char* name, Split split) {
    return detent::error_of([&] { make_dataset(name, split, {directory_}); });
  }

  fs::path directory_ = fs::temp_directory_path() / ("detent_cifar_" + std::to_string(getpid()));
};

TEST_F(CifarFiles, ChannelsAreNormalisedInFloat32) {
  const std::string file = "cifar-10-batches-bin/test_batch.bin";
  write_zeros(file, 10000 * (1 + kPixels));
  overwrite(file, 9999 * (1 + kPixels), std::string("\x09\xff", 2));
  const auto dataset = make_dataset("cifar10", Split::kTest, {directory_});
  EXPECT_EQ(dataset->size(), 10000);
  EXPECT_EQ(dataset->sample_shape(), (Shape{3, 32, 32}));
  EXPECT_EQ(dataset->source(), (directory_ / "cifar-10-batches-bin").string());
  const std::vector<int64_t> indices = {0, 9999};
  const Batch batch = dataset->batch(indices);
  EXPECT_THAT(batch.labels.values<int64_t>(), ElementsAre(0, 9));
  const auto inputs = batch.inputs[0].values<float>();
  EXPECT_THAT(inputs.first(1024), Each((0.0F - 0.485F) / 0.229F));
  EXPECT_THAT(inputs.subspan(1024, 1024), Each((0.0F - 0.456F) / 0.224F));
  EXPECT_THAT(inputs.subspan(2048, 1024), Each((0.0F - 0.406F) / 0.225F));
  const float centred = 1.0F - 0.485F;
  EXPECT_EQ(inputs[kPixels], centred / 0.229F);
  EXPECT_EQ(inputs[kPixels + 1], inputs[0]);
}

TEST_F(CifarFiles, TrainingImagesAreThoseOfAllFiveFilesInOrder) {
  for (int i = 1; i <= 5; ++i) {
    const std::string file = fmt::format("cifar-10/data_batch_{}.bin", i);
    write_zeros(file, 10000 * (1 + kPixels));
    overwrite(file, 0, std::string(1, static_cast<char>(i)));
  }
  const auto dataset = make_dataset("cifar10", Split::kTrain, {directory_});
  EXPECT_EQ(dataset->size(), 50000);
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(dataset->labels()[static_cast<size_t>(i - 1) * 10000], i);
}

TEST_F(CifarFiles, Cifar100LearnsTheFineLabels) {
  write_zeros("cifar-100-binary/train.bin", 50000 * (2 + kPixels));
  write_zeros("test.bin", 10000 * (2 + kPixels));
  overwrite("test.bin", 2 + kPixels, "\x12\x63");
  EXPECT_EQ(make_dataset("cifar100", Split::kTrain, {directory_})->size(), 50000);
  const auto test = make_dataset("cifar-100", Split::kValidation, {directory_});
  EXPECT_EQ(test->size(), 10000);
  EXPECT_EQ(test->class_count(), 100);
  EXPECT_EQ(test->labels()[1], 99);
}

TEST_F(CifarFiles, TruncatedAndMissingFilesAreNamed) {
  write_zeros("cifar10/test_batch.bin", 10000 * (1 + kPixels) - 1);
  EXPECT_THAT(message_of("cifar10", Split::kTest),
              AllOf(HasSubstr("cifar10/test_batch.bin: has 30729999 bytes, expected 30730000"),
                    HasSubstr("truncated")));
  EXPECT_THAT(message_of("cifar100", Split::kTrain),
              AllOf(HasSubstr("no directory holds train.bin; tried:"),
                    HasSubstr((directory_ / "cifar-100-binary").string() + "\n"), HasSubstr("--data-dir")));
}

TEST_F(CifarFiles, SomeTrainingFilesAreUsedWithAWarning) {
  for (const int i : {2, 4}) {
    const std::string file = fmt::format("cifar10/data_batch_{}.bin", i);
    write_zeros(file, 10000 * (1 + kPixels));
    overwrite(file, 0, std::string(1, static_cast<char>(i)));
  }
  set_up_logging("info");
  testing::internal::CaptureStderr();
  const auto dataset = make_dataset("cifar10", Split::kTrain, {directory_});
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("cifar10 lacks data_batch_1.bin, data_batch_3.bin, data_batch_5.bin; only the samples "
                "of 2 of 5 files are used"));
  EXPECT_EQ(dataset->size(), 20000);
  EXPECT_EQ(dataset->labels()[0], 2);
  EXPECT_EQ(dataset->labels()[10000], 4);
}

TEST(Cifar10, PublishedTestImages) {
  const auto root = published_data({"cifar-10/test_batch.bin"});
  if (!root) GTEST_SKIP() << "no cifar-10/test_batch.bin in $DETENT_DATA or ../shared/data";
  const auto test = make_dataset("cifar10", Split::kTest, {*root});
  EXPECT_EQ(test->size(), 10000);
  std::vector<int64_t> histogram(10);
  for (const int64_t label : test->labels()) ++histogram.at(static_cast<size_t>(label));
  EXPECT_THAT(histogram, Each(1000));
}

}  // namespace
}  // namespace detent
