#include "detent/datasets/mnist.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/datasets/image_dataset.h"
#include "detent/io/idx.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 28;
constexpr int64_t kClasses = 10;
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

struct FilePair {
  fs::path images;
  fs::path labels;
};

std::string file_prefix(Split split) { return split == Split::kTrain ? "train" : "t10k"; }

std::optional<fs::path> find_file(const fs::path& directory, const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"}) {
    std::error_code ignored;  // an unreadable directory has no file for us
    if (fs::is_regular_file(directory / candidate, ignored)) return directory / candidate;
  }
  return std::nullopt;
}

std::vector<fs::path> search_roots(const DatasetOptions& options) {
  std::vector<fs::path> roots;
  if (!options.data_dir.empty()) roots.push_back(options.data_dir);
  const char* data = std::getenv("DETENT_DATA");
  if (data != nullptr && *data != '\0') roots.emplace_back(data);
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') roots.push_back(fs::path(home) / ".cache" / "detent");
  return roots;
}

FilePair find_files(const PublishedSet& set, Split split, const DatasetOptions& options) {
  const std::string images_name = file_prefix(split) + "-images-idx3-ubyte";
  const std::string labels_name = file_prefix(split) + "-labels-idx1-ubyte";
  std::string tried;
  for (const fs::path& root : search_roots(options)) {
    std::vector<fs::path> directories;
    for (const char* folder : set.folders) directories.push_back(root / folder);
    directories.push_back(root);
    for (const fs::path& directory : directories) {
      const auto images = find_file(directory, images_name);
      const auto labels = find_file(directory, labels_name);
      if (images && labels) {
        if (!options.data_dir.empty() && root != options.data_dir) {
          spdlog::warn("{}: not in {}, taken from {}", set.name, options.data_dir.string(),
                       directory.string());
        }
        return {*images, *labels};
      }
      const char* half = images ? " (it has the images only)" : labels ? " (it has the labels only)" : "";
      tried += fmt::format("\n  {}{}", directory.string(), half);
    }
  }
  fail(
      "{}: no directory holds both {} and {} (each may end in .gz); tried:{}\nGive the directory with "
      "--data-dir, or set DETENT_DATA.",
      set.name, images_name, labels_name, tried.empty() ? " none" : tried);
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
      std::find_if(labels.begin(), labels.end(), [](uint8_t label) { return label >= kClasses; });
  if (wrong != labels.end()) {
    fail("{}: label {} is {}, expected 0 to {}", path.string(), wrong - labels.begin(), *wrong, kClasses - 1);
  }
  check_is_not_another_set(set, split, labels, path);
  return {labels.begin(), labels.end()};
}

/// In float32, one rounding an operation, as torchvision's ToTensor and Normalize compute.
GreyLevels normalised_levels(float mean, float std) {
  GreyLevels levels{};
  for (size_t level = 0; level < levels.size(); ++level) {
    const float scaled = static_cast<float>(level) / 255.0F;
    const float centred = scaled - mean;
    levels[level] = centred / std;
  }
  return levels;
}

std::unique_ptr<Dataset> make_published(const PublishedSet& set, Split split, const DatasetOptions& options) {
  const FilePair files = find_files(set, split, options);
  Tensor images = read_idx(files.images, kMostIdxBytes);
  const bool square = images.rank() == 3 && images.dim(1) == kSide && images.dim(2) == kSide;
  check_shape(images, files.images, "[n, 28, 28]", square);
  std::vector<int64_t> labels = read_labels(set, split, files.labels);
  if (images.dim(0) != static_cast<int64_t>(labels.size())) {
    fail("{} holds {} images, but {} holds {} labels", files.images.string(), images.dim(0),
         files.labels.string(), labels.size());
  }
  return std::make_unique<ImageDataset>(std::move(images), std::move(labels), kClasses,
                                        normalised_levels(set.mean, set.std),
                                        files.images.parent_path().string());
}

DatasetInfo published_info(const PublishedSet& set, const char* contents) {
  DatasetInfo info;
  info.name = set.name;
  info.help = fmt::format(
      "{}: 28x28 grey images, normalised as (x / 255 - {}) / {}. train is the 60,000 training images; "
      "validation, "
      "test and prediction are all the 10,000 test images: validation is the test split, as in published "
      "runs. "
      "Needs the published idx files (.gz or not) in --data-dir, $DETENT_DATA or ~/.cache/detent, or in a "
      "folder {} "
      "there.",
      contents, set.mean, set.std, fmt::join(set.folders, ", "));
  info.task = "classification";
  info.sample_shape = {1, kSide, kSide};
  info.class_count = kClasses;
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
