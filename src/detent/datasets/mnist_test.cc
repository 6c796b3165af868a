#include "detent/datasets/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>
#include <optional>

#include "detent/core/error_of_for_test.h"
#include "detent/datasets/published_data_for_test.h"
#include "detent/files/file.h"
#include "detent/files/gzip_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string idx_bytes(std::initializer_list<uint8_t> dimensions, const std::string& elements) {
  std::string bytes = {0, 0, 8, static_cast<char>(dimensions.size())};
  for (const uint8_t size : dimensions) bytes += std::string(3, '\0') + static_cast<char>(size);
  return bytes + elements;
}

/// `count` images whose pixels all are the image's number.
std::string images_bytes(uint8_t count) {
  std::string pixels;
  for (uint8_t i = 0; i < count; ++i) pixels += std::string(size_t{28} * 28, static_cast<char>(i));
  return idx_bytes({count, 28, 28}, pixels);
}

/// Sets or removes an environment variable until the end of the scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::optional<std::string>& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    set(value);
  }
  ~ScopedVariable() { set(before_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_, value->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

  const char* name_;
  std::optional<std::string> before_;
};

class MnistFiles : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(directory_); }

  void write(const std::string& name, const std::string& bytes) { write_file(directory_ / name, bytes); }

  std::string message_of(const char* name, Split split) {
    return detent::error_of([&] { make_dataset(name, split, {directory_}); });
  }

  fs::path directory_ = fs::temp_directory_path() / ("detent_mnist_" + std::to_string(getpid()));
  ScopedVariable data_{"DETENT_DATA", std::nullopt};
  ScopedVariable home_{"HOME", (directory_ / "home").string()};
};

TEST_F(MnistFiles, LevelsAreNormalisedInFloat32) {
  write("mnist/train-images-idx3-ubyte", images_bytes(200));
  write("mnist/train-labels-idx1-ubyte.gz", gzip_for_test(idx_bytes({200}, std::string(200, '\3'))));
  const auto dataset = make_dataset("mnist", Split::kTrain, {directory_});
  EXPECT_EQ(dataset->size(), 200);
  EXPECT_EQ(dataset->source(), (directory_ / "mnist").string());
  const std::vector<int64_t> indices = {0, 137};
  const Batch batch = dataset->batch(indices);
  EXPECT_EQ(batch.inputs[0].shape(), (Shape{2, 1, 28, 28}));
  const auto inputs = batch.inputs[0].values<float>();
  EXPECT_EQ(inputs[0], (0.0F - 0.1307F) / 0.3081F);
  const float scaled = 137.0F / 255.0F;
  const float centred = scaled - 0.1307F;
  EXPECT_EQ(inputs[size_t{28} * 28], centred / 0.3081F);
  EXPECT_EQ(inputs[size_t{2} * 28 * 28 - 1], inputs[size_t{28} * 28]);
  EXPECT_THAT(batch.labels.values<int64_t>(), ElementsAre(3, 3));
}

TEST_F(MnistFiles, FoundInEveryPlaceAndFolder) {
  const std::string labels = idx_bytes({2}, std::string(2, '\1'));
  for (const char* place : {"", "fashion_mnist", "fashion-mnist", "FashionMNIST/raw"}) {
    const fs::path folder = fs::path("home/.cache/detent") / place;
    write((folder / "t10k-images-idx3-ubyte.gz").string(), gzip_for_test(images_bytes(2)));
    write((folder / "t10k-labels-idx1-ubyte").string(), labels);
    EXPECT_EQ(make_dataset("fashion-mnist", Split::kValidation)->size(), 2) << place;
    {
      const ScopedVariable data("DETENT_DATA", (directory_ / "home/.cache/detent").string());
      const ScopedVariable no_home("HOME", std::nullopt);
      EXPECT_EQ(make_dataset("fashion_mnist", Split::kTest)->size(), 2) << place;
    }
    fs::remove_all(directory_ / "home");
  }
}

TEST_F(MnistFiles, MissingFilesListWhatWasTried) {
  write("MNIST/raw/t10k-labels-idx1-ubyte", idx_bytes({1}, "\1"));
  const std::string home = (directory_ / "home/.cache/detent").string();
  EXPECT_THAT(message_of("mnist", Split::kTest),
              AllOf(HasSubstr("t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte"),
                    HasSubstr("\n  " + (directory_ / "mnist").string() + "\n"),
                    HasSubstr("MNIST/raw (it lacks t10k-images-idx3-ubyte)\n"),
                    HasSubstr("\n  " + directory_.string() + "\n"), HasSubstr("\n  " + home + "/mnist\n"),
                    HasSubstr("--data-dir"), HasSubstr("DETENT_DATA"),
                    HasSubstr("or download them: `detent data fetch mnist`.")));
}

TEST_F(MnistFiles, BrokenContentsAreNamed) {
  const std::string images = "t10k-images-idx3-ubyte";
  const std::string labels = "t10k-labels-idx1-ubyte";
  write(images, images_bytes(3));
  write(labels, idx_bytes({2}, std::string(2, '\0')));
  EXPECT_THAT(message_of("mnist", Split::kTest),
              AllOf(HasSubstr("holds 3 images"), HasSubstr(labels), HasSubstr("holds 2 labels")));
  write(labels, idx_bytes({3}, std::string({0, 9, 10})));
  EXPECT_THAT(message_of("mnist", Split::kTest), HasSubstr(labels + ": label 2 is 10, expected 0 to 9"));
  write(labels, images_bytes(3));
  EXPECT_THAT(message_of("mnist", Split::kTest), HasSubstr("holds uint8 [3, 28, 28], expected uint8 [n]"));
  write(images, idx_bytes({1, 2, 2}, "abcd"));
  EXPECT_THAT(message_of("mnist", Split::kTest),
              HasSubstr("holds uint8 [1, 2, 2], expected uint8 [n, 28, 28]"));
  write(images, images_bytes(3).substr(0, 1000));
  EXPECT_THAT(message_of("mnist", Split::kTest), HasSubstr(images + ": truncated idx file: 984 bytes"));
}

TEST_F(MnistFiles, FilesOfTheOtherSetAreRefused) {
  write("t10k-images-idx3-ubyte", images_bytes(10));
  write("t10k-labels-idx1-ubyte", idx_bytes({10}, std::string({7, 2, 1, 0, 4, 1, 4, 9, 5, 9})));
  EXPECT_EQ(message_of("mnist", Split::kTest), "");
  EXPECT_THAT(message_of("fashion_mnist", Split::kTest),
              HasSubstr("these are the labels of mnist, expected fashion_mnist"));
}

TEST(Mnist, PublishedFiles) {
  const auto root = published_data({"mnist/train-images-idx3-ubyte.gz"});
  if (!root) GTEST_SKIP() << "no mnist/train-images-idx3-ubyte.gz in $DETENT_DATA or ../shared/data";
  const auto train = make_dataset("mnist", Split::kTrain, {*root});
  const auto test = make_dataset("mnist", Split::kTest, {*root});
  EXPECT_EQ(train->size(), 60000);
  EXPECT_EQ(test->size(), 10000);
  EXPECT_EQ(make_dataset("mnist", Split::kValidation, {*root})->labels().size(), 10000U);
  EXPECT_THAT(train->labels().first(5), ElementsAre(5, 0, 4, 1, 9));
  std::vector<int64_t> histogram(10);
  for (const int64_t label : test->labels()) ++histogram.at(static_cast<size_t>(label));
  EXPECT_THAT(histogram, ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));

  std::vector<int64_t> indices(60000);
  std::iota(indices.begin(), indices.end(), 0);
  double sum = 0;
  constexpr size_t kBatch = 64;
  for (size_t i = 0; i < indices.size(); i += kBatch) {
    const Batch batch = train->batch(std::span(indices).subspan(i, std::min(kBatch, indices.size() - i)));
    for (const float value : batch.inputs[0].values<float>()) sum += static_cast<double>(value);
  }
  EXPECT_NEAR(sum / (60000.0 * 28 * 28), 0, 1e-3);  // 0.1307 is the mean of the training images
}

}  // namespace
}  // namespace detent
