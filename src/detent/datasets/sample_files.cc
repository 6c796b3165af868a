#include "detent/datasets/sample_files.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/datasets/data_files.h"
#include "detent/io/csv.h"
#include "detent/io/npy.h"
#include "detent/io/npz.h"
#include "detent/io/safetensors.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

struct Samples {
  Tensor inputs;  // float32 [n, ...]
  std::vector<int64_t> labels;
};

/// A kind of file, `endings` behind the name of the split.
struct FileKind {
  const char* name;
  std::vector<std::string> endings;
  Samples (*read)(const std::vector<fs::path>& files);
};

class TensorDataset final : public Dataset {
 public:
  TensorDataset(Samples samples, int64_t class_count, std::string source)
      : Dataset({samples.inputs.shape().begin() + 1, samples.inputs.shape().end()}, class_count,
                std::move(samples.labels), std::move(source)),
        inputs_(std::move(samples.inputs)) {}

 private:
  void copy_sample(int64_t index, std::span<float> target) const override {
    const auto begin = static_cast<size_t>(index) * target.size();
    std::ranges::copy(inputs_.values<float>().subspan(begin, target.size()), target.begin());
  }

  Tensor inputs_;
};

/// Any tensor of real numbers; float32 holds integers up to 2^24 exactly, and more classes are none.
std::vector<int64_t> labels_of(const Tensor& tensor, const std::string& where) {
  constexpr float kMostClasses = 1 << 24;
  const Tensor numbers = to_float32(tensor);
  std::vector<int64_t> labels;
  for (const float value : numbers.values<float>()) {
    if (!(value >= 0 && value < kMostClasses && value == std::floor(value))) {
      fail("{}: label {} is {}, expected an integer of at least 0", where, labels.size(), value);
    }
    labels.push_back(static_cast<int64_t>(value));
  }
  return labels;
}

Samples samples_of(const Tensor& inputs, const Tensor& labels, const std::string& where) {
  const bool fits =
      inputs.rank() >= 2 && labels.rank() == 1 && labels.dim(0) == inputs.dim(0) && inputs.numel() > 0;
  if (!fits) {
    fail("{}: got inputs {} and labels {}, expected [n, ...] and [n]", where, shape_text(inputs.shape()),
         shape_text(labels.shape()));
  }
  return {to_float32(inputs), labels_of(labels, where)};
}

Samples samples_among(const std::vector<std::pair<std::string, Tensor>>& tensors, const std::string& where) {
  const auto tensor = [&](const char* name) {
    for (const auto& [key, value] : tensors) {
      if (key == name) return value;
    }
    fail("{}: holds no tensor \"{}\", expected \"inputs\" and \"labels\"", where, name);
  };
  return samples_of(tensor("inputs"), tensor("labels"), where);
}

Samples read_from_safetensors(const std::vector<fs::path>& files) {
  return samples_among(read_safetensors(files[0]).tensors, files[0].string());
}

Samples read_from_npz(const std::vector<fs::path>& files) {
  return samples_among(read_npz(files[0]), files[0].string());
}

Samples read_from_npy(const std::vector<fs::path>& files) {
  return samples_of(read_npy(files[0]), read_npy(files[1]), files[0].string());
}

Samples read_from_csv(const std::vector<fs::path>& files) {
  const Tensor table = read_csv(files[0]);
  const int64_t features = table.dim(1) - 1;
  if (features < 1) fail("{}: got one column, expected features and a label", files[0].string());
  Tensor inputs(DType::kFloat32, {table.dim(0), features});
  Tensor labels(DType::kFloat32, {table.dim(0)});
  auto target = inputs.values<float>().begin();
  for (int64_t row = 0; row < table.dim(0); ++row) {
    const Tensor line = table.rows(row, row + 1);
    const std::span<const float> values = std::as_const(line).values<float>();
    target = std::ranges::copy(values.first(static_cast<size_t>(features)), target).out;
    labels.values<float>()[static_cast<size_t>(row)] = values.back();
  }
  return {std::move(inputs), labels_of(labels, files[0].string())};
}

std::vector<std::string> file_names(const FileKind& kind, Split split) {
  std::vector<std::string> names;
  for (const std::string& ending : kind.endings) names.push_back(std::string(split_name(split)) + ending);
  return names;
}

bool exists(const FileKind& kind, const fs::path& folder, Split split) {
  return std::ranges::all_of(file_names(kind, split),
                             [&](const std::string& name) { return fs::exists(folder / name); });
}

/// Every split that the folder holds: labels of all of them decide on the number of classes.
std::map<Split, Samples> read_folder(const FileKind& kind, const fs::path& folder) {
  std::map<Split, Samples> splits;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    if (!exists(kind, folder, split)) continue;
    std::vector<fs::path> files;
    for (const std::string& name : file_names(kind, split)) files.push_back(folder / name);
    const Samples& samples = splits.emplace(split, kind.read(files)).first->second;
    const Tensor& first = splits.begin()->second.inputs;
    if (!std::ranges::equal(samples.inputs.shape().begin() + 1, samples.inputs.shape().end(),
                            first.shape().begin() + 1, first.shape().end())) {
      fail("{}: got inputs {}, but those of the other splits are {}", files[0].string(),
           shape_text(samples.inputs.shape()), shape_text(first.shape()));
    }
  }
  return splits;
}

fs::path folder_with(const FileKind& kind, Split split, const DatasetOptions& options) {
  return find_data_files({.dataset = kind.name, .folders = {}, .names = file_names(kind, split)}, options)
      .front()
      .parent_path();
}

/// Beside the training samples.
bool has_validation(const FileKind& kind, const DatasetOptions& options) {
  return exists(kind, folder_with(kind, Split::kTrain, options), Split::kValidation);
}

std::unique_ptr<Dataset> make_from_files(const FileKind& kind, Split split, const DatasetOptions& options) {
  const Split needed = split == Split::kTrain ? Split::kTrain : Split::kTest;
  const fs::path folder = folder_with(kind, needed, options);
  std::map<Split, Samples> splits = read_folder(kind, folder);
  int64_t class_count = 0;
  for (const auto& [name, samples] : splits) {
    class_count = std::max(class_count, 1 + *std::ranges::max_element(samples.labels));
  }
  const bool own_validation = split == Split::kValidation && splits.contains(split);
  return std::make_unique<TensorDataset>(std::move(splits.at(own_validation ? split : needed)), class_count,
                                         folder.string());
}

DatasetInfo info_of(const FileKind& kind, const std::string& contents) {
  DatasetInfo info;
  info.name = kind.name;
  info.help = fmt::format(
      "Your own samples: a folder (--data-dir) with {}; test likewise, and validation; where there is none, "
      "a training holds a tenth of train out (see --validation-split). prediction is the test split. Numbers "
      "are taken as they are, labels are 0, 1, ...; "
      "the largest in any split says how many classes there are.",
      contents);
  info.task = "classification";
  return info;
}

const FileKind& safetensors_kind() {
  static const FileKind kind = {"safetensors", {".safetensors"}, read_from_safetensors};
  return kind;
}

const FileKind& npy_kind() {
  static const FileKind kind = {"npy", {"_inputs.npy", "_labels.npy"}, read_from_npy};
  return kind;
}

const FileKind& npz_kind() {
  static const FileKind kind = {"npz", {".npz"}, read_from_npz};
  return kind;
}

const FileKind& csv_kind() {
  static const FileKind kind = {"csv", {".csv"}, read_from_csv};
  return kind;
}

Tensor only_inputs(const std::vector<std::pair<std::string, Tensor>>& tensors, const std::string& where) {
  for (const auto& [name, tensor] : tensors) {
    if (name == "inputs" || tensors.size() == 1) return tensor;
  }
  fail("{}: holds {} tensors, expected one, or one called \"inputs\"", where, tensors.size());
}

std::unique_ptr<Dataset> make_unlabelled(Split /*split*/, const DatasetOptions& options) {
  const fs::path& path = options.data_dir;
  if (path.empty() || fs::is_directory(path))
    fail("unlabelled: got \"{}\", expected a file of inputs: .npy, .npz or .safetensors", path.string());
  Tensor inputs;
  if (path.extension() == ".npy") {
    inputs = read_npy(path);
  } else if (path.extension() == ".npz") {
    inputs = only_inputs(read_npz(path), path.string());
  } else if (path.extension() == ".safetensors") {
    inputs = only_inputs(read_safetensors(path).tensors, path.string());
  } else {
    fail("{}: expected a file of inputs: .npy, .npz or .safetensors", path.string());
  }
  if (inputs.rank() < 2 || inputs.numel() == 0)
    fail("{}: got inputs {}, expected [n, ...]", path.string(), shape_text(inputs.shape()));
  const auto count = static_cast<size_t>(inputs.dim(0));
  return std::make_unique<TensorDataset>(Samples{to_float32(inputs), std::vector<int64_t>(count, -1)}, 0,
                                         path.string());
}

}  // namespace

DatasetInfo unlabelled_info() {
  DatasetInfo info;
  info.name = "unlabelled";
  info.help =
      "Your own inputs without labels, to calibrate with: one file (--data-dir, or --calibration) that holds "
      "them as [n, ...]: .npy, or .npz or .safetensors with one tensor, or one called inputs.";
  info.task = "classification";
  info.make = make_unlabelled;
  return info;
}

DatasetInfo safetensors_info() {
  DatasetInfo info =
      info_of(safetensors_kind(),
              "train.safetensors, which holds the tensors \"inputs\" [n, ...] and \"labels\" [n]");
  info.make = [](Split split, const DatasetOptions& options) {
    return make_from_files(safetensors_kind(), split, options);
  };
  info.has_validation = [](const DatasetOptions& options) {
    return has_validation(safetensors_kind(), options);
  };
  return info;
}

DatasetInfo npy_info() {
  DatasetInfo info = info_of(npy_kind(), "train_inputs.npy [n, ...] and train_labels.npy [n]");
  info.make = [](Split split, const DatasetOptions& options) {
    return make_from_files(npy_kind(), split, options);
  };
  info.has_validation = [](const DatasetOptions& options) { return has_validation(npy_kind(), options); };
  return info;
}

DatasetInfo npz_info() {
  DatasetInfo info = info_of(npz_kind(),
                             "train.npz, which holds the arrays \"inputs\" [n, ...] and \"labels\" [n] "
                             "(numpy.savez or savez_compressed)");
  info.make = [](Split split, const DatasetOptions& options) {
    return make_from_files(npz_kind(), split, options);
  };
  info.has_validation = [](const DatasetOptions& options) { return has_validation(npz_kind(), options); };
  return info;
}

DatasetInfo csv_info() {
  DatasetInfo info = info_of(
      csv_kind(), "train.csv: a sample a line, numbers with commas between, the last of them the label");
  info.make = [](Split split, const DatasetOptions& options) {
    return make_from_files(csv_kind(), split, options);
  };
  info.has_validation = [](const DatasetOptions& options) { return has_validation(csv_kind(), options); };
  return info;
}

}  // namespace detent
