#include "detent/datasets/training_splits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "detent/core/error.h"
#include "detent/datasets/published_data_for_test.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::map<int64_t, int64_t> counts_of(std::span<const int64_t> labels, std::span<const int64_t> samples) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t sample : samples) ++counts[labels[static_cast<size_t>(sample)]];
  return counts;
}

TEST(HeldOutSamples, AreATenthOfEachClass) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 1234; ++i) labels.push_back(i * i % 7 % 3);
  std::map<int64_t, int64_t> all;
  for (const int64_t label : labels) ++all[label];
  const std::vector<int64_t> held_out = held_out_samples(labels);
  EXPECT_EQ(held_out.size(), 123U);
  EXPECT_TRUE(std::ranges::is_sorted(held_out));
  EXPECT_EQ(std::ranges::adjacent_find(held_out), held_out.end());
  for (const auto& [label, count] : counts_of(labels, held_out)) {
    EXPECT_GE(count, all[label] / 10) << label;
    EXPECT_LE(count, all[label] / 10 + 1) << label;
  }
}

/// Other samples would make accuracies incomparable with earlier ones.
TEST(HeldOutSamples, AreAlwaysTheSame) {
  EXPECT_THAT(held_out_samples(std::vector<int64_t>(40, 0)), ElementsAre(3, 8, 13, 20));
  EXPECT_EQ(held_out_samples(std::vector<int64_t>(5, 0)).size(), 1U);
  EXPECT_THAT(held_out_samples(std::vector<int64_t>(4, 0)), IsEmpty());
}

class TrainingSplitsOfFiles : public testing::Test {
 protected:
  TrainingSplitsOfFiles() { fs::create_directories(directory_); }
  ~TrainingSplitsOfFiles() override { fs::remove_all(directory_); }

  /// A feature that tells the samples apart, and the label.
  void write_split(const std::string& split, int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) text += fmt::format("{},{}\n", i, i % 2);
    write_file(directory_ / (split + ".csv"), text);
  }
  TrainingSplits make(ValidationSplit validation) {
    return make_training_splits("csv", validation, {.data_dir = directory_});
  }
  static std::vector<float> features(const Dataset& dataset, int64_t epoch = 0) {
    std::vector<int64_t> all(static_cast<size_t>(dataset.size()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    const Tensor inputs = dataset.batch(all, epoch).inputs[0];
    const auto values = inputs.values<float>();
    return {values.begin(), values.end()};
  }

  fs::path directory_ = fs::temp_directory_path() / ("detent_splits_" + std::to_string(getpid()));
};

TEST_F(TrainingSplitsOfFiles, HoldOutWhatIsThenNotTrainedOn) {
  write_split("train", 0, 50);
  write_split("test", 100, 8);
  const auto [training, validation] = make(ValidationSplit::kHeldOut);
  EXPECT_EQ(training->size(), 45);
  EXPECT_EQ(validation->size(), 5);
  EXPECT_EQ(validation->class_count(), 2);
  EXPECT_EQ(validation->source(), directory_.string());
  std::vector<float> all = features(*training);
  EXPECT_EQ(features(*training, 1), all);
  const std::vector<float> held_out = features(*validation);
  for (size_t i = 0; i < held_out.size(); ++i)
    EXPECT_EQ(static_cast<int64_t>(held_out[i]) % 2, validation->labels()[i]);
  all.insert(all.end(), held_out.begin(), held_out.end());
  std::ranges::sort(all);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(all[i], static_cast<float>(i));
}

TEST_F(TrainingSplitsOfFiles, TakeWhatIsThereForValidation) {
  write_split("train", 0, 50);
  write_split("test", 100, 8);
  const auto published = make(ValidationSplit::kTest);
  EXPECT_EQ(published.training->size(), 50);
  EXPECT_EQ(features(*published.validation)[0], 100);
  write_split("validation", 200, 3);
  const auto own = make(ValidationSplit::kHeldOut);
  EXPECT_EQ(own.training->size(), 50);
  EXPECT_THAT(features(*own.validation), ElementsAre(200, 201, 202));
  EXPECT_EQ(features(*make(ValidationSplit::kTest).validation)[0], 100);
}

TEST_F(TrainingSplitsOfFiles, RefuseTooFewSamples) {
  write_split("train", 0, 4);
  EXPECT_THAT([&] { make(ValidationSplit::kHeldOut); },
              ThrowsMessage<Error>(AllOf(HasSubstr("4 training samples are too few to hold some out"),
                                         HasSubstr("--validation-split test"))));
}

TEST(TrainingSplits, OfWhatBringsItsOwnValidation) {
  for (const char* name : {"digits", "toy_tiny"}) {
    const auto [training, validation] = make_training_splits(name, ValidationSplit::kHeldOut);
    EXPECT_EQ(training->size(), make_dataset(name, Split::kTrain)->size());
    EXPECT_TRUE(std::ranges::equal(validation->labels(), make_dataset(name, Split::kValidation)->labels()));
    const auto test = make_training_splits(name, ValidationSplit::kTest).validation;
    EXPECT_TRUE(std::ranges::equal(test->labels(), make_dataset(name, Split::kTest)->labels()));
  }
}

TEST(TrainingSplits, OfMnistLeaveTheTestImagesAlone) {
  const auto root = published_data({"mnist/train-images-idx3-ubyte.gz"});
  if (!root) GTEST_SKIP() << "no mnist/train-images-idx3-ubyte.gz in $DETENT_DATA or ../shared/data";
  const auto [training, validation] =
      make_training_splits("mnist", ValidationSplit::kHeldOut, {.data_dir = *root});
  EXPECT_EQ(training->size(), 54000);
  EXPECT_EQ(validation->size(), 6000);
}

}  // namespace
}  // namespace detent
