#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/datasets/image_transforms.h"

namespace detent {

enum class Split { kTrain, kValidation, kTest, kPrediction };

constexpr std::array<const char*, 4> enum_names(Split) {
  return {"train", "validation", "test", "prediction"};
}
/// "train", ...
std::string_view split_name(Split split);

/// One of the tensors that make a sample, without the batch dimension.
struct SampleInput {
  std::string name;  // "" where only its position identifies it
  DType dtype = DType::kFloat32;
  Shape shape = {};
  Shape usual = {};   // of a network's input: the whole shape, with usual sizes of what is open
  int64_t below = 0;  // bound of integers; 0: not known
};

/// Samples of a batch of n, in the order they were asked for.
struct Batch {
  std::vector<Tensor> inputs;  // [n, shape...] of each of Dataset::inputs()
  Tensor labels;               // int64 [n], each in [0, class_count); -1 where the data set has none
};

/// The samples of one split with their labels, if they have any. Const use from several threads is safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  /// A sample's inputs to a network, in this order.
  std::span<const SampleInput> inputs() const { return inputs_; }
  /// Shape of the first input.
  const Shape& sample_shape() const { return inputs_.front().shape; }
  /// Number of different input shapes, and the shape index of each sample. `inputs()` has the first; the
  /// samples of a batch share one.
  size_t size_count() const { return std::max<size_t>(sizes_.shapes.size(), 1); }
  size_t size_of_sample(int64_t index) const {
    return sizes_.of_samples.empty() ? 0 : sizes_.of_samples[static_cast<size_t>(index)];
  }
  /// A shape for each input.
  std::vector<Shape> shapes(size_t size) const;
  /// First position in [begin, end) whose sample differs in size from the one at `begin`; `end` if none does.
  int64_t same_size_end(std::span<const int64_t> order, int64_t begin, int64_t end) const;
  /// 0 where unknown, which only a data set without labels may be.
  int64_t class_count() const { return class_count_; }
  /// Without labels there is no accuracy; calibration needs inputs only.
  bool has_labels() const { return has_labels_; }
  /// Labels of all samples, in order; all -1 where there are none.
  std::span<const int64_t> labels() const { return labels_; }
  /// Where the samples are from, for people: a directory, "computed", "built in".
  const std::string& source() const { return source_; }

  /// The samples at `indices`, each in [0, size()); the same index may occur more than once. `epoch` of
  /// training, from 1, is what random transformations of a training set depend on, besides their seed and the
  /// index: 0 is for samples as they are evaluated. Throws Error that begins with source and index.
  Batch batch(std::span<const int64_t> indices, int64_t epoch = 0) const;

 protected:
  /// The different shapes of samples, and which of them each sample has.
  struct Sizes {
    std::vector<std::vector<Shape>> shapes = {};
    std::vector<size_t> of_samples = {};
  };
  void set_sizes(Sizes sizes) { sizes_ = std::move(sizes); }

  /// Labels are already known to be in [0, class_count), or all -1: there are none.
  Dataset(std::span<const SampleInput> inputs, int64_t class_count, std::vector<int64_t> labels,
          std::string source);
  /// A data set whose samples have one float32 input.
  Dataset(Shape sample_shape, int64_t class_count, std::vector<int64_t> labels, std::string source);

 private:
  friend class DatasetPart;
  /// The inputs of a batch: by default one of float32, put together from samples.
  virtual std::vector<Tensor> gather(std::span<const int64_t> indices, int64_t epoch) const;
  /// Writes sample `index` to `target`, which has the elements of its shape. Not called where `gather`
  /// is another.
  virtual void copy_sample(int64_t index, std::span<float> target) const;
  /// The same as seen in an epoch (from 1) of training.
  virtual void copy_training_sample(int64_t index, int64_t epoch, std::span<float> target) const;

  std::vector<SampleInput> inputs_;
  int64_t class_count_;
  bool has_labels_;
  std::vector<int64_t> labels_;
  std::string source_;
  Sizes sizes_;
};

struct DatasetOptions {
  /// Searched for files before $DETENT_DATA and ~/.cache/detent; empty: not given.
  std::filesystem::path data_dir;
  /// Height and width of the samples of image_folder.
  int64_t image_size = 224;
  /// The images' own instead: for networks that take images of any size, or no squares. Not with
  /// transforms.center_crop.
  bool own_image_size = false;
  /// All own sizes must be equal.
  bool one_image_size = false;
  /// File with the names of image_folder's classes, a line each; empty: not given.
  std::filesystem::path classes = {};
  /// File with the labels of image_folder's images; empty: their folders say.
  std::filesystem::path labels = {};
  /// Images of image_folder that cannot be read are left out, with a warning, instead of an Error.
  bool skip_broken = false;
  /// The network's inputs by name, where known, for files of tensors. Shapes whole, -1 for open sizes, or {}.
  std::vector<SampleInput> inputs = {};
  /// Splits a text into tokens, for texts that calibrate language models; empty where there is no tokenizer.
  std::function<std::vector<int64_t>(const std::string& text)> tokenize = {};
  int64_t text_window = 512;  // tokens of a sample
  /// For data sets of images.
  ImageTransforms transforms = {};
  /// For their random transformations.
  int64_t seed = 0;
};

struct DatasetInfo {
  std::string name;
  std::vector<std::string> aliases;
  std::string help;         // what it is and what its splits are; a line or a few
  std::string attribution;  // authors and licence; empty for computed data and the user's own
  std::string task;         // "classification"
  bool has_images = false;  // of bytes, which DatasetOptions::transforms apply to
  Shape sample_shape;       // [] where only the files say
  int64_t class_count = 0;  // 0 where only the files say
  std::unique_ptr<Dataset> (*make)(Split split, const DatasetOptions& options) = nullptr;
  /// Whether there are samples for validation only; where not, `make` gives the test samples for it. See
  /// make_training_splits.
  bool (*has_validation)(const DatasetOptions& options) = [](const DatasetOptions&) { return false; };
  /// Whether the training samples are the test samples: there is only one folder.
  bool (*has_one_split)(const DatasetOptions& options) = [](const DatasetOptions&) { return false; };
};

/// Every data set that make_dataset knows, in the order to list them.
std::span<const DatasetInfo> all_datasets();

/// By name or alias. Throws Error on an unknown name, naming the nearest.
const DatasetInfo& dataset_info(std::string_view name);

/// Loads or computes one split as it was published: a training takes its two from make_training_splits.
/// Throws Error on an unknown name, when files are missing or broken, and on transforms that do not fit the
/// images or of samples that are no images.
std::unique_ptr<Dataset> make_dataset(std::string_view name, Split split, const DatasetOptions& options = {});

/// XXH64 of the shape, the number, the labels and the values of samples, as a network sees them in
/// evaluation: of all samples where they have at most 2^24 values together, else of evenly spaced ones with
/// as many, the first and the last among them. Equal data give equal fingerprints on every machine.
uint64_t data_fingerprint(const Dataset& dataset);

}  // namespace detent
