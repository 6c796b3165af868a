#include "detent/datasets/datasets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "detent/core/error.h"
#include "detent/datasets/data_files.h"
#include "detent/datasets/image_dataset.h"
#include "detent/datasets/sample_readers.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMnistSide = 28;
constexpr int64_t kMnistClasses = 10;
constexpr uint64_t kMostIdxBytes = uint64_t{1} << 28;

using FirstLabels = std::array<uint8_t, 10>;

/// A set published as MNIST's four files.
struct PublishedSet {
  const char* name;
  std::array<const char*, 3> folders;  // searched below each root, before the root itself
  float mean;                          // of the training images scaled to [0, 1]
  float std;
  FirstLabels first_train_labels;
  FirstLabels first_test_labels;
};

constexpr PublishedSet kMnist = {
    "mnist", {"mnist", "MNIST/raw", "MNIST"}, 0.1307F,
    0.3081F, {5, 0, 4, 1, 9, 2, 1, 3, 1, 4},  {7, 2, 1, 0, 4, 1, 4, 9, 5, 9},
};
constexpr PublishedSet kFashionMnist = {
    "fashion_mnist",
    {"fashion_mnist", "fashion-mnist", "FashionMNIST/raw"},
    0.2860F,
    0.3530F,
    {9, 0, 0, 3, 0, 2, 7, 2, 5, 5},
    {9, 2, 1, 1, 6, 1, 4, 6, 5, 7},
};

std::vector<fs::path> find_files(const PublishedSet& set, Split split, const DatasetOptions& options) {
  const std::string prefix = split == Split::kTrain ? "train" : "t10k";
  return find_data_files({.dataset = set.name,
                          .folders = {set.folders.begin(), set.folders.end()},
                          .names = {prefix + "-images-idx3-ubyte", prefix + "-labels-idx1-ubyte"},
                          .may_be_gzip = true},
                         options);
}

void check_shape(const Tensor& tensor, const fs::path& path, const char* expected, bool fits) {
  if (tensor.dtype() == DType::kUInt8 && fits) return;
  fail("{}: holds {} {}, expected uint8 {}", path.string(), dtype_name(tensor.dtype()),
       shape_text(tensor.shape()), expected);
}

/// Files of both sets have the same names, so a wrong directory would not show otherwise.
void check_is_not_another_set(const PublishedSet& set, Split split, std::span<const uint8_t> labels,
                              const fs::path& path) {
  for (const PublishedSet& other : {kMnist, kFashionMnist}) {
    const FirstLabels& first = split == Split::kTrain ? other.first_train_labels : other.first_test_labels;
    const bool same = labels.size() >= first.size() && std::equal(first.begin(), first.end(), labels.begin());
    if (same && std::string_view(other.name) != set.name) {
      fail("{}: these are the labels of {}, expected {}", path.string(), other.name, set.name);
    }
  }
}

std::vector<int64_t> read_labels(const PublishedSet& set, Split split, const fs::path& path) {
  const Tensor tensor = read_idx(path, kMostIdxBytes);
  check_shape(tensor, path, "[n]", tensor.rank() == 1);
  const std::span<const uint8_t> labels = tensor.values<uint8_t>();
  const auto wrong =
      std::find_if(labels.begin(), labels.end(), [](uint8_t label) { return label >= kMnistClasses; });
  if (wrong != labels.end()) {
    fail("{}: label {} is {}, expected 0 to {}", path.string(), wrong - labels.begin(), *wrong,
         kMnistClasses - 1);
  }
  check_is_not_another_set(set, split, labels, path);
  return {labels.begin(), labels.end()};
}

std::unique_ptr<Dataset> make_published(const PublishedSet& set, Split split, const DatasetOptions& options) {
  const auto files = find_files(set, split, options);
  const fs::path& images_path = files.at(0);
  const fs::path& labels_path = files.at(1);
  Tensor images = read_idx(images_path, kMostIdxBytes);
  const bool square = images.rank() == 3 && images.dim(1) == kMnistSide && images.dim(2) == kMnistSide;
  check_shape(images, images_path, "[n, 28, 28]", square);
  std::vector<int64_t> labels = read_labels(set, split, labels_path);
  if (images.dim(0) != static_cast<int64_t>(labels.size())) {
    fail("{} holds {} images, but {} holds {} labels", images_path.string(), images.dim(0),
         labels_path.string(), labels.size());
  }
  images = images.reshaped({images.dim(0), 1, kMnistSide, kMnistSide});
  return std::make_unique<ImageDataset>(std::move(images), std::move(labels), kMnistClasses,
                                        Normalisation{{set.mean}, {set.std}}, options,
                                        images_path.parent_path().string());
}

DatasetInfo published_info(const PublishedSet& set, const char* contents) {
  DatasetInfo info;
  info.name = set.name;
  info.help = fmt::format(
      "{}: 28x28 grey images, normalised as (x / 255 - {}) / {}. train is the 60,000 training images, "
      "of which a training holds a tenth out for its validation (see `detent train --validation-split`); "
      "test and "
      "prediction are the 10,000 test images. "
      "Needs the published idx files (.gz or not) in --data-dir, $DETENT_DATA or ~/.cache/detent, or in a "
      "folder {} "
      "there.",
      contents, set.mean, set.std, fmt::join(set.folders, ", "));
  info.task = "classification";
  info.has_images = true;
  info.sample_shape = {1, kMnistSide, kMnistSide};
  info.class_count = kMnistClasses;
  return info;
}

}  // namespace

DatasetInfo mnist_info() {
  DatasetInfo info = published_info(kMnist, "Handwritten digits");
  info.attribution = "MNIST, Y. LeCun, C. Cortes and C. Burges; CC BY-SA 3.0";
  info.make = [](Split split, const DatasetOptions& options) {
    return make_published(kMnist, split, options);
  };
  return info;
}

DatasetInfo fashion_mnist_info() {
  DatasetInfo info = published_info(kFashionMnist, "Pictures of clothes in ten classes");
  info.aliases = {"fashion-mnist"};
  info.attribution = "Fashion-MNIST, H. Xiao, K. Rasul and R. Vollgraf, Zalando SE, 2017; MIT licence";
  info.make = [](Split split, const DatasetOptions& options) {
    return make_published(kFashionMnist, split, options);
  };
  return info;
}

}  // namespace detent
