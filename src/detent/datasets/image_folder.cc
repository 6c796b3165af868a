#include "detent/datasets/datasets.h"

#include <algorithm>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/datasets/data_files.h"
#include "detent/datasets/image.h"
#include "detent/datasets/image_dataset.h"
#include "detent/datasets/sample_readers.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

// Mean of ImageNet's training images, by channel, as published networks expect it.
constexpr std::array<float, 3> kMean = {0.485F, 0.456F, 0.406F};
constexpr std::array<float, 3> kStd = {0.229F, 0.224F, 0.225F};
constexpr const char* kClassList = "classes.txt";

/// The part of an image that is kept when it was scaled is 224 of 256: how ImageNet's are evaluated.
int64_t scaled_side(int64_t image_size) { return (image_size * 256 + 112) / 224; }

/// Sorted by name; hidden ones aside.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry.path());
  }
  if (error) fail("cannot read {}: {}", folder.string(), error.message());
  std::ranges::sort(entries);
  return entries;
}

std::vector<std::string> class_folders(const fs::path& split) {
  std::vector<std::string> names;
  for (const fs::path& entry : entries_of(split)) {
    if (fs::is_directory(entry)) names.push_back(entry.filename().string());
  }
  return names;
}

/// Whether it holds images beside each other, without labels, instead of a folder a class.
bool is_flat(const fs::path& folder) {
  return class_folders(folder).empty() && std::ranges::any_of(entries_of(folder), is_image_name);
}

std::vector<std::string> read_class_list(const fs::path& path) {
  std::vector<std::string> names;
  std::string text = read_text_file(path, uint64_t{1} << 24);
  std::erase(text, '\r');
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (names.empty()) fail("{}: is empty, expected a class a line", path.string());
  if (std::set(names.begin(), names.end()).size() != names.size())
    fail("{}: names a class twice", path.string());
  return names;
}

std::optional<fs::path> existing_folder(const fs::path& root, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (fs::is_directory(root / name)) return root / name;
  }
  return std::nullopt;
}

/// train, or for the others what there is: their own, then the other of validation and test. Images without
/// labels, and those that a table labels, are all splits at once: those in the folder itself, or in train
/// where it stands alone.
std::optional<fs::path> split_folder(const DatasetOptions& options, Split split) {
  const fs::path& root = options.data_dir;
  const auto train = existing_folder(root, {"train"});
  const auto others = split == Split::kValidation ? existing_folder(root, {"validation", "val", "test"})
                                                  : existing_folder(root, {"test", "validation", "val"});
  if (!train && !others && (!options.labels.empty() || is_flat(root))) return root;
  if (split == Split::kTrain) return train;
  return !others && train && is_flat(*train) ? train : others;
}

/// Why a folder without splits is not taken for one of images without labels; "" where it has class folders.
std::string obstacle_to_flat(const fs::path& root) {
  const std::vector<std::string> folders = class_folders(root);
  const bool has_images = std::ranges::any_of(entries_of(root), is_image_name);
  if (folders.empty()) return ", and no .jpg, .jpeg or .png file";
  if (!has_images) return "";
  return fmt::format(", and beside images the folder {}: images without labels lie alone", folders.front());
}

/// In the order of their labels, and what names them. None where nothing does.
struct Classes {
  std::vector<std::string> names;
  std::string source;
};

Classes class_names(const fs::path& root, const fs::path& split, const DatasetOptions& options) {
  if (!options.classes.empty()) return {read_class_list(options.classes), options.classes.string()};
  if (fs::exists(root / kClassList)) return {read_class_list(root / kClassList), kClassList};
  const auto train = existing_folder(root, {"train"});
  return {class_folders(train && !is_flat(*train) ? *train : split), "the train folder"};
}

struct Listing {
  std::vector<fs::path> images;
  std::vector<int64_t> labels;
};

void warn_of_others(const fs::path& split, const std::vector<fs::path>& others) {
  if (others.empty()) return;
  warn_once(fmt::format("{}: {} files are neither .jpg, .jpeg nor .png and are left out, the first is {}",
                        split.string(), others.size(), others.front().string()));
}

/// Images without labels.
Listing list_flat(const fs::path& split) {
  Listing listing;
  std::vector<fs::path> others;
  for (const fs::path& entry : entries_of(split)) {
    if (entry.filename() != kClassList) (is_image_name(entry) ? listing.images : others).push_back(entry);
  }
  listing.labels.assign(listing.images.size(), -1);
  warn_of_others(split, others);
  return listing;
}

/// The images of a split; their classes must be among `classes`, of which not all need have any.
Listing list_images(const fs::path& split, const Classes& classes) {
  if (is_flat(split)) return list_flat(split);
  std::map<std::string, int64_t> label_of;
  for (const std::string& name : classes.names) label_of.emplace(name, static_cast<int64_t>(label_of.size()));
  Listing listing;
  std::vector<fs::path> others;
  std::vector<std::string> empty;
  const std::vector<std::string> folders = class_folders(split);
  if (folders.empty()) {
    fail("{}: holds no folder, expected one a class or, for images without labels, only .jpg, .jpeg or .png",
         split.string());
  }
  for (const std::string& name : folders) {
    const auto label = label_of.find(name);
    if (label == label_of.end()) {
      fail("{}: class \"{}\" is not among the {} classes of {}", split.string(), name, classes.names.size(),
           classes.source);
    }
    const size_t before = listing.images.size();
    for (const fs::path& entry : entries_of(split / name)) {
      (is_image_name(entry) ? listing.images : others).push_back(entry);
    }
    if (listing.images.size() == before) empty.push_back(name);
    listing.labels.resize(listing.images.size(), label->second);
  }
  if (listing.images.empty()) fail("{}: its folders hold no .jpg, .jpeg or .png file", split.string());
  if (!empty.empty()) {
    warn_once(fmt::format("{}: {} folders of classes hold no image: {}", split.string(), empty.size(),
                          fmt::join(empty, ", ")));
  }
  warn_of_others(split, others);
  return listing;
}

/// Leaves out those that cannot be read.
void drop_broken(const fs::path& folder, Listing& listing) {
  const std::vector<size_t> broken = broken_images(listing.images);
  if (broken.size() == listing.images.size())
    fail("{}: none of its {} images can be read", folder.string(), broken.size());
  for (auto index = broken.rbegin(); index != broken.rend(); ++index) {
    listing.images.erase(listing.images.begin() + static_cast<std::ptrdiff_t>(*index));
    listing.labels.erase(listing.labels.begin() + static_cast<std::ptrdiff_t>(*index));
  }
}

/// Result of `read` for an image; an Error says what helps.
auto read_or_say(const fs::path& path, const auto& read) {
  try {
    return read(path);
  } catch (const Error& error) {
    fail("{} (--skip-broken leaves such images out)", error.what());
  }
}

/// Images stay on the disk; a sample is read when it is asked for.
class ImageFolderDataset final : public Dataset {
 public:
  /// Several samplers are for images of several sizes; `sizes` says which of them each image has.
  ImageFolderDataset(Listing listing, int64_t class_count, std::vector<ImageSampler> samplers,
                     std::vector<size_t> sizes, std::string source)
      : Dataset(samplers.front().sample_shape(), class_count, std::move(listing.labels), std::move(source)),
        images_(std::move(listing.images)),
        samplers_(std::move(samplers)) {
    if (samplers_.size() == 1) return;
    Sizes of_images{.of_samples = std::move(sizes)};
    for (const ImageSampler& sampler : samplers_) of_images.shapes.push_back({sampler.sample_shape()});
    set_sizes(std::move(of_images));
  }

 private:
  void copy_sample(int64_t index, std::span<float> target) const override {
    with_image(index, [&](const ImageView& image) { sampler(index).sample(image, target); });
  }
  void copy_training_sample(int64_t index, int64_t epoch, std::span<float> target) const override {
    with_image(index,
               [&](const ImageView& image) { sampler(index).training_sample(image, index, epoch, target); });
  }
  const ImageSampler& sampler(int64_t index) const { return samplers_[size_of_sample(index)]; }
  void with_image(int64_t index, const std::function<void(const ImageView&)>& use) const {
    const fs::path& path = images_[static_cast<size_t>(index)];
    try {
      use(view_of(read_or_say(path, read_image)));
    } catch (const std::bad_alloc&) {
      fail("{}: not enough memory to read, scale and cut it", path.string());
    }
  }

  std::vector<fs::path> images_;
  std::vector<ImageSampler> samplers_;
};

/// The sizes that images have, and which of them each has.
struct OwnSizes {
  std::vector<ImageSize> sizes;
  std::vector<size_t> of_images;
};

OwnSizes own_sizes(const std::vector<fs::path>& images, bool must_be_one) {
  OwnSizes own;
  for (const fs::path& image : images) {
    const ImageSize size = read_or_say(image, read_image_size);
    const auto known = std::ranges::find(own.sizes, size);
    own.of_images.push_back(static_cast<size_t>(known - own.sizes.begin()));
    if (known == own.sizes.end()) own.sizes.push_back(size);
    if (!must_be_one || own.sizes.size() < 2) continue;
    fail(
        "{} has {}x{} pixels and {} {}x{} (height x width): samples that run together must be alike: give "
        "--image-size N, to scale and cut them to N x N",
        images.front().string(), own.sizes[0].height, own.sizes[0].width, image.string(), size.height,
        size.width);
  }
  return own;
}

ImageSampler scaling_sampler(const DatasetOptions& options, const Normalisation& usual) {
  DatasetOptions complete = options;
  if (!options.transforms.resize) complete.transforms.resize = scaled_side(options.image_size);
  if (!options.transforms.center_crop) complete.transforms.center_crop = options.image_size;
  return {std::nullopt, usual, complete, !options.transforms.resize && !options.transforms.center_crop};
}

/// With the sampler of each size that the samples have.
std::unique_ptr<Dataset> folder_dataset(Listing listing, int64_t class_count, const DatasetOptions& options,
                                        const fs::path& folder) {
  const Normalisation usual = {{kMean.begin(), kMean.end()}, {kStd.begin(), kStd.end()}};
  std::vector<ImageSampler> samplers;
  OwnSizes own;
  if (options.own_image_size) {
    own = own_sizes(listing.images, options.one_image_size);
    for (const ImageSize& size : own.sizes) samplers.emplace_back(size, usual, options);
  } else {
    samplers.push_back(scaling_sampler(options, usual));
  }
  return std::make_unique<ImageFolderDataset>(std::move(listing), class_count, std::move(samplers),
                                              std::move(own.of_images), folder.string());
}

/// Images that a file of labels names.
Listing list_labelled(const fs::path& folder, const fs::path& labels, int64_t& class_count) {
  Listing listing;
  for (LabelledFile& file : read_label_file(labels, folder)) {
    listing.images.push_back(std::move(file.path));
    listing.labels.push_back(file.label);
    class_count = std::max(class_count, file.label + 1);
  }
  return listing;
}

std::unique_ptr<Dataset> make_image_folder(Split split, const DatasetOptions& options) {
  if (options.data_dir.empty()) {
    fail(
        "image_folder: no folder is given; name the one that holds train/<class>/ and test/<class>/ "
        "(--data-dir)");
  }
  const fs::path& root = options.data_dir;
  if (!fs::is_directory(root)) fail("image_folder: {} is no folder", root.string());
  const std::optional<fs::path> folder = split_folder(options, split);
  if (!folder) {
    fail("image_folder: {} holds no folder {}{}", root.string(),
         split == Split::kTrain ? "train" : "test, validation or val", obstacle_to_flat(root));
  }
  Listing listing;
  int64_t class_count = 0;
  if (!options.labels.empty()) {
    listing = list_labelled(*folder, options.labels, class_count);
  } else {
    const Classes classes = class_names(root, *folder, options);
    listing = list_images(*folder, classes);
    class_count = static_cast<int64_t>(classes.names.size());
  }
  if (options.skip_broken) drop_broken(*folder, listing);
  return folder_dataset(std::move(listing), class_count, options, *folder);
}

}  // namespace

DatasetInfo image_folder_info() {
  DatasetInfo info;
  info.name = "image_folder";
  info.help =
      "Your own images: a folder (--data-dir) with train/<class>/*.jpg, .jpeg or .png; test and validation "
      "(or val) likewise. validation stands for test where there is none; where there is no validation, a "
      "training holds a tenth of train out (see `detent train --validation-split`). prediction is the test "
      "split. Classes "
      "are numbered in the order of their folders' names in train, or as --classes FILE or classes.txt "
      "beside train lists them, a line each: then folders may hold only some of the network's classes. A "
      "folder with nothing but images has no labels: enough to calibrate with, in train or for all splits. "
      "An image of --image-size (224) is taken as it is. Of others the shorter side is scaled to 8/7 of that "
      "(so 256; or, of all, to --resize), bilinear with antialias as in torchvision, and the middle square "
      "of "
      "that size (or --center-crop) is taken. Where a network leaves the size open, or takes no squares, and "
      "none is given, it is the images' own; training takes images of one size. Levels are normalised as (x "
      "/ 255 - mean) / "
      "std with ImageNet's mean and std. An image may have up to 2^27 "
      "pixels.";
  info.task = "classification";
  info.has_images = true;
  info.make = make_image_folder;
  info.has_validation = [](const DatasetOptions& options) {
    return existing_folder(options.data_dir, {"validation", "val"}).has_value();
  };
  info.has_one_split = [](const DatasetOptions& options) {
    return split_folder(options, Split::kTrain) == split_folder(options, Split::kTest);
  };
  return info;
}

}  // namespace detent
