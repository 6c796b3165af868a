#include "detent/datasets/datasets.h"

#include <fmt/ranges.h>

#include <utility>

#include "detent/datasets/data_files.h"
#include "detent/datasets/image_dataset.h"
#include "detent/datasets/sample_readers.h"

namespace detent {
namespace {

// Mean and standard deviation of ImageNet's training images, by channel: the networks for CIFAR whose weights
// are published (resnet20 to resnet56) were trained with these, not with CIFAR's own.
constexpr std::array<float, 3> kImageNetMean = {0.485F, 0.456F, 0.406F};
constexpr std::array<float, 3> kImageNetStd = {0.229F, 0.224F, 0.225F};

/// A set published in the binary layout.
struct CifarSet {
  const char* name;
  std::vector<std::string> folders;
  std::vector<std::string> train_files;
  std::string test_file;
  CifarLayout train;
  CifarLayout test;
};

const CifarSet& cifar10() {
  constexpr int kClasses = 10;
  static const CifarSet set = {
      .name = "cifar10",
      .folders = {"cifar10", "cifar-10", "cifar-10-batches-bin"},
      .train_files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                      "data_batch_5.bin"},
      .test_file = "test_batch.bin",
      .train = {10000, {kClasses}},
      .test = {10000, {kClasses}},
  };
  return set;
}

const CifarSet& cifar100() {
  constexpr int kGroups = 20;  // of five classes each; read, but not learned
  constexpr int kClasses = 100;
  static const CifarSet set = {
      .name = "cifar100",
      .folders = {"cifar100", "cifar-100", "cifar-100-binary"},
      .train_files = {"train.bin"},
      .test_file = "test.bin",
      .train = {50000, {kGroups, kClasses}},
      .test = {10000, {kGroups, kClasses}},
  };
  return set;
}

int64_t class_count(const CifarSet& set) { return set.test.label_limits.back(); }

std::unique_ptr<Dataset> make_cifar(const CifarSet& set, Split split, const DatasetOptions& options) {
  const bool train = split == Split::kTrain;
  const std::vector<std::string> names = train ? set.train_files : std::vector{set.test_file};
  const auto files = find_data_files(
      {.dataset = set.name, .folders = set.folders, .names = names, .some_are_enough = true}, options);
  CifarImages read = read_cifar(files, train ? set.train : set.test);
  return std::make_unique<ImageDataset>(
      std::move(read.images), std::move(read.labels), class_count(set),
      Normalisation{{kImageNetMean.begin(), kImageNetMean.end()}, {kImageNetStd.begin(), kImageNetStd.end()}},
      options, files.front().parent_path().string());
}

DatasetInfo cifar_info(const CifarSet& set) {
  DatasetInfo info;
  info.name = set.name;
  info.help = fmt::format(
      "Photographs of {} classes: 32x32 RGB images, normalised as (x / 255 - mean) / std with the mean {} "
      "and "
      "the std {} of ImageNet, as the published weights of resnet20 expect. train is the 50,000 training "
      "images, of which a training holds a tenth out for its validation (see `detent train "
      "--validation-split`); test and "
      "prediction are the 10,000 test images. Where some of the training files are missing, the others are "
      "used, with a "
      "warning. Needs the published binary files ({} and {}) in --data-dir, $DETENT_DATA or "
      "~/.cache/detent, or in a folder {} there.",
      class_count(set), fmt::join(kImageNetMean, ", "), fmt::join(kImageNetStd, ", "),
      fmt::join(set.train_files, ", "), set.test_file, fmt::join(set.folders, ", "));
  info.attribution = "A. Krizhevsky, V. Nair and G. Hinton, 2009; no licence stated, used in research";
  info.task = "classification";
  info.has_images = true;
  info.sample_shape = {3, 32, 32};
  info.class_count = class_count(set);
  return info;
}

}  // namespace

DatasetInfo cifar10_info() {
  DatasetInfo info = cifar_info(cifar10());
  info.aliases = {"cifar-10"};
  info.make = [](Split split, const DatasetOptions& options) {
    return make_cifar(cifar10(), split, options);
  };
  return info;
}

DatasetInfo cifar100_info() {
  DatasetInfo info = cifar_info(cifar100());
  info.aliases = {"cifar-100"};
  info.make = [](Split split, const DatasetOptions& options) {
    return make_cifar(cifar100(), split, options);
  };
  return info;
}

}  // namespace detent
