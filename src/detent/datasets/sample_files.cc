#include "detent/datasets/datasets.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/ranges.h>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/name_pattern.h"
#include "detent/datasets/data_files.h"
#include "detent/datasets/whole_samples.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/safetensors.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// A kind of file, `endings` after the name of the split.
struct FileKind {
  const char* name;
  std::vector<std::string> endings;
  Samples (*read)(const std::vector<fs::path>& files, std::span<const SampleInput> wanted);
};

class TensorDataset final : public Dataset {
 public:
  TensorDataset(Samples samples, int64_t class_count, std::string source)
      : Dataset(samples.types, class_count, std::move(samples.labels), std::move(source)) {
    add(samples);
  }

  /// One after the other, without labels; their shapes may differ.
  TensorDataset(std::vector<Samples> files, std::string source)
      : Dataset(files.front().types, 0, labels_of_all(files), std::move(source)) {
    Sizes sizes;
    for (Samples& file : files) {
      const std::vector<Shape> shapes = file.shapes();
      const auto known = std::ranges::find(sizes.shapes, shapes);
      sizes.of_samples.resize(sizes.of_samples.size() + file.labels.size(),
                              static_cast<size_t>(known - sizes.shapes.begin()));
      if (known == sizes.shapes.end()) sizes.shapes.push_back(shapes);
      add(file);
    }
    if (sizes.shapes.size() > 1) set_sizes(std::move(sizes));
  }

 private:
  static std::vector<int64_t> labels_of_all(const std::vector<Samples>& files) {
    std::vector<int64_t> labels;
    for (const Samples& file : files) labels.insert(labels.end(), file.labels.begin(), file.labels.end());
    return labels;
  }

  void add(Samples& samples) {
    if (samples.rows.empty()) samples.rows.resize(samples.inputs.size(), 1);
    const int64_t count = samples.inputs.front().dim(0) / std::max<int64_t>(samples.rows.front(), 1);
    for (int64_t i = 0; i < count; ++i) places_.emplace_back(files_.size(), i);
    rows_.push_back(std::move(samples.rows));
    files_.push_back(std::move(samples.inputs));
  }

  std::vector<Tensor> gather(std::span<const int64_t> indices, int64_t /*epoch*/) const override {
    std::vector<Tensor> batch;
    const size_t first = indices.empty() ? 0 : places_[static_cast<size_t>(indices.front())].first;
    const auto& like = files_[first];
    for (size_t i = 0; i < like.size(); ++i) {
      Shape shape = like[i].shape();
      const int64_t given = rows_[first][i];
      shape[0] = std::ssize(indices) * std::max<int64_t>(given, 1);
      if (given == 0 && indices.size() == 1) shape.clear();
      Tensor& part = batch.emplace_back(like[i].dtype(), std::move(shape));
      auto target = part.bytes().begin();
      for (const int64_t index : indices) {
        const auto& [file, row] = places_[static_cast<size_t>(index)];
        const int64_t rows = std::max<int64_t>(rows_[file][i], 1);
        const Tensor sample = files_[file][i].rows(row * rows, (row + 1) * rows);
        target = std::ranges::copy(std::as_const(sample).bytes(), target).out;
      }
    }
    return batch;
  }

  std::vector<std::vector<Tensor>> files_;               // the inputs that each holds
  std::vector<std::vector<int64_t>> rows_;               // Samples::rows of these
  std::vector<std::pair<size_t, int64_t>> places_ = {};  // of samples: file, and which one of it
};

/// Any tensor of real numbers; float32 holds integers up to 2^24 exactly, and more classes are none.
std::vector<int64_t> labels_of(const Tensor& tensor, const std::string& where) {
  constexpr float kMostClasses = 1 << 24;
  const Tensor numbers = to_float32(tensor);
  std::vector<int64_t> labels;
  for (const float value : numbers.values<float>()) {
    if (!(value >= 0 && value < kMostClasses && value == std::floor(value))) {
      fail("{}: label {} is {}, expected an integer from 0 to {}", where, labels.size(), value,
           kMostClasses - 1);
    }
    labels.push_back(static_cast<int64_t>(value));
  }
  return labels;
}

/// A sample for each row. Without labels: all -1.
Samples samples_of(const NamedTensors& inputs, std::span<const SampleInput> wanted,
                   const std::string& where) {
  Samples samples;
  const int64_t count = inputs.front().second.rank() > 0 ? inputs.front().second.dim(0) : 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [name, tensor] = inputs[i];
    const size_t least_rank = inputs.size() == 1 ? 2 : 1;
    const bool fits = tensor.shape().size() >= least_rank && tensor.dim(0) == count && tensor.numel() > 0;
    if (!fits) {
      fail("{}: got {} {}, expected [{}]", where, name, shape_text(tensor.shape()),
           i == 0 ? "n, ..." : fmt::format("{}, ...", count));
    }
    const DType dtype = i < wanted.size() ? wanted[i].dtype : DType::kFloat32;
    samples.types.push_back({i < wanted.size() ? wanted[i].name : "", dtype,
                             Shape(tensor.shape().begin() + 1, tensor.shape().end())});
    samples.inputs.push_back(as_input(tensor, dtype, fmt::format("{}: {}", where, name)));
  }
  samples.labels.assign(static_cast<size_t>(count), -1);
  return samples;
}

Samples with_labels(Samples samples, const Tensor& labels, const std::string& where) {
  const Tensor& inputs = samples.inputs.front();
  if (labels.rank() != 1 || labels.dim(0) != inputs.dim(0)) {
    fail("{}: got inputs {} and labels {}, expected [n, ...] and [n]", where, shape_text(inputs.shape()),
         shape_text(labels.shape()));
  }
  samples.labels = labels_of(labels, where);
  return samples;
}

const Tensor* find_tensor(const NamedTensors& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  return found == tensors.end() ? nullptr : &found->second;
}

/// The tensors that the network takes by their names; of a single one, also the one called "inputs".
NamedTensors inputs_among(const NamedTensors& tensors, std::span<const SampleInput> wanted,
                          const std::string& where) {
  if (wanted.size() < 2) {
    if (const Tensor* inputs = find_tensor(tensors, "inputs")) return {{"inputs", *inputs}};
    if (wanted.empty()) fail("{}: holds no tensor \"inputs\"", where);
  }
  NamedTensors inputs;
  for (const SampleInput& input : wanted) {
    if (const Tensor* tensor = find_tensor(tensors, input.name)) {
      inputs.emplace_back(input.name, *tensor);
      continue;
    }
    const Tensor* tokens = find_tensor(tensors, kTokensName);
    if (const auto given = tokens == nullptr ? std::nullopt : beside_tokens(input.name, *tokens)) {
      inputs.emplace_back(input.name, *given);
      continue;
    }
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors) names.push_back(name);
    fail("{}: holds {}, but no \"{}\", an input of the network", where, listed_names(names, input.name),
         input.name);
  }
  return inputs;
}

/// Names of tensors that are neither inputs nor labels.
std::set<std::string> left_out(const NamedTensors& tensors, const NamedTensors& inputs) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors)
    if (name != "labels" && find_tensor(inputs, name) == nullptr) names.insert(name);
  return names;
}

void warn_of(const std::set<std::string>& names, const std::string& where) {
  if (names.empty()) return;
  log_warning("{}: \"{}\" is left out: it is no input of the network, and labels are called \"labels\"",
              where, fmt::join(names, "\", \""));
}

Samples samples_among(const NamedTensors& tensors, std::span<const SampleInput> wanted,
                      const std::string& where) {
  const Tensor* labels = find_tensor(tensors, "labels");
  if (labels == nullptr) fail("{}: holds no tensor \"labels\", expected inputs and labels", where);
  const NamedTensors inputs = inputs_among(tensors, wanted, where);
  warn_of(left_out(tensors, inputs), where);
  return with_labels(samples_of(inputs, wanted, where), *labels, where);
}

Samples read_from_safetensors(const std::vector<fs::path>& files, std::span<const SampleInput> wanted) {
  return samples_among(read_safetensors(files[0]).tensors, wanted, files[0].string());
}

Samples read_from_npz(const std::vector<fs::path>& files, std::span<const SampleInput> wanted) {
  return samples_among(read_npz(files[0]), wanted, files[0].string());
}

void check_takes_one(std::span<const SampleInput> wanted, const std::string& where) {
  if (wanted.size() > 1) {
    fail("{}: it holds one input, the network takes {}: give them by name in a .npz or .safetensors", where,
         wanted.size());
  }
}

Samples read_from_npy(const std::vector<fs::path>& files, std::span<const SampleInput> wanted) {
  const std::string where = files[0].string();
  check_takes_one(wanted, where);
  return with_labels(samples_of({{"inputs", read_npy(files[0])}}, wanted, where), read_npy(files[1]), where);
}

Samples read_from_csv(const std::vector<fs::path>& files, std::span<const SampleInput> wanted) {
  check_takes_one(wanted, files[0].string());
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
  return with_labels(samples_of({{"inputs", std::move(inputs)}}, wanted, files[0].string()), labels,
                     files[0].string());
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
std::map<Split, Samples> read_folder(const FileKind& kind, const fs::path& folder,
                                     std::span<const SampleInput> wanted) {
  std::map<Split, Samples> splits;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    if (!exists(kind, folder, split)) continue;
    std::vector<fs::path> files;
    for (const std::string& name : file_names(kind, split)) files.push_back(folder / name);
    const Samples& samples = splits.emplace(split, kind.read(files, wanted)).first->second;
    const Samples& first = splits.begin()->second;
    for (size_t i = 0; i < samples.inputs.size(); ++i) {
      if (samples.types[i].shape == first.types[i].shape) continue;
      fail("{}: got inputs {}, but those of the other splits are {}", files[0].string(),
           shape_text(samples.inputs[i].shape()), shape_text(first.inputs[i].shape()));
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
  std::map<Split, Samples> splits = read_folder(kind, folder, options.inputs);
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
      "a training holds a tenth of train out (see `detent train --validation-split`). prediction is the test "
      "split. Numbers "
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

/// Input that a tensor without a name is for: the tokens of a language model, or the only input.
std::string lone_name(std::span<const SampleInput> wanted, const std::string& where) {
  const bool are_of_tokens = std::ranges::all_of(wanted, [](const SampleInput& input) {
    return input.name == kTokensName || beside_tokens(input.name, Tensor());
  });
  const bool takes_tokens = std::ranges::find(wanted, kTokensName, &SampleInput::name) != wanted.end();
  if (takes_tokens && are_of_tokens) return kTokensName;
  check_takes_one(wanted, where);
  return "inputs";
}

/// A single tensor needs no name.
NamedTensors unlabelled_inputs(const NamedTensors& tensors, std::span<const SampleInput> wanted,
                               const std::string& where) {
  if (wanted.size() < 2 && tensors.size() == 1) return tensors;
  if (wanted.empty() && find_tensor(tensors, "inputs") == nullptr)
    fail("{}: holds {} tensors, expected one, or one called \"inputs\"", where, tensors.size());
  return inputs_among(tensors, wanted, where);
}

/// At most 64 windows of a text, spread over it, int64 [n, tokens]; a shorter text is one window.
Tensor text_windows(const fs::path& path, const DatasetOptions& options) {
  constexpr int64_t kMostWindows = 64;
  if (!options.tokenize) {
    fail(
        "{}: a text calibrates language models that come with a tokenizer; expected .npy, .npz or "
        ".safetensors",
        path.string());
  }
  const std::vector<int64_t> tokens = options.tokenize(read_file(path));
  if (tokens.empty()) fail("{}: holds no text", path.string());
  const int64_t length = std::min(options.text_window, std::ssize(tokens));
  const int64_t whole = std::ssize(tokens) / length;
  const int64_t count = std::min(whole, kMostWindows);
  Tensor windows(DType::kInt64, {count, length});
  auto target = windows.values<int64_t>().begin();
  for (int64_t i = 0; i < count; ++i) {
    const auto first = static_cast<size_t>(i * whole / count * length);
    target = std::ranges::copy(std::span(tokens).subspan(first, static_cast<size_t>(length)), target).out;
  }
  return windows;
}

/// Adds the names of what is left out.
Samples read_unlabelled(const fs::path& path, const DatasetOptions& options, std::set<std::string>& unread) {
  NamedTensors tensors;
  if (path.extension() == ".npy") {
    tensors.emplace_back(lone_name(options.inputs, path.string()), read_npy(path));
  } else if (path.extension() == ".npz") {
    tensors = read_npz(path);
  } else if (path.extension() == ".safetensors") {
    tensors = read_safetensors(path).tensors;
  } else if (path.extension() == ".txt") {
    tensors.emplace_back(kTokensName, text_windows(path, options));
  } else {
    fail("{}: expected a file of inputs: .npy, .npz or .safetensors, or .txt for a language model",
         path.string());
  }
  const NamedTensors inputs = unlabelled_inputs(tensors, options.inputs, path.string());
  unread.merge(left_out(tensors, inputs));
  if (const auto whole = whole_samples(inputs, options.inputs, path.string())) return *whole;
  return samples_of(inputs, options.inputs, path.string());
}

std::unique_ptr<Dataset> make_unlabelled(Split /*split*/, const DatasetOptions& options) {
  const fs::path& path = options.data_dir;
  if (path.empty()) fail("unlabelled: got \"\", expected a file of inputs: .npy, .npz, .safetensors or .txt");
  const std::vector<fs::path> paths = fs::is_directory(path) ? arrays_in(path) : std::vector{path};
  std::vector<Samples> files;
  std::set<std::string> unread;
  for (const fs::path& file : paths) files.push_back(read_unlabelled(file, options, unread));
  warn_of(unread, path.string());
  if (files.empty()) fail("{}: holds no .npy, .npz or .safetensors", path.string());
  return make_sample_dataset(std::move(files), path.string());
}

}  // namespace

std::unique_ptr<Dataset> make_sample_dataset(std::vector<Samples> files, std::string source) {
  return std::make_unique<TensorDataset>(std::move(files), std::move(source));
}

std::optional<Tensor> beside_tokens(const std::string& name, const Tensor& tokens) {
  if (name != "attention_mask" && name != "token_type_ids") return std::nullopt;
  Tensor tensor(DType::kInt64, tokens.shape());
  if (name == "attention_mask") std::ranges::fill(tensor.values<int64_t>(), 1);
  return tensor;
}

std::vector<fs::path> arrays_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string ending = entry.path().extension().string();
    const bool is_array = ending == ".npy" || ending == ".npz" || ending == ".safetensors";
    if (is_array && !entry.path().filename().string().starts_with('.')) files.push_back(entry.path());
  }
  if (error) fail("cannot read {}: {}", folder.string(), error.message());
  std::ranges::sort(files);
  return files;
}

DatasetInfo unlabelled_info() {
  DatasetInfo info;
  info.name = "unlabelled";
  info.help =
      "Your own inputs without labels, to calibrate with: one file (--data-dir, or `detent quantize "
      "--calibration`) that holds "
      "them as [n, ...]: .npy (of a language model the tokens), or .npz or .safetensors with one tensor, or "
      "one called inputs, or those that "
      "the network takes by their names. Or a folder of such files, whose samples may differ in the sizes "
      "that the network leaves open. Or a text, .txt, for a language model with a tokenizer: at most 64 "
      "windows of "
      "512 tokens, spread over the text.";
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
