#include "detent/language/language_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"
#include "detent/language/language_graph.h"
#include "detent/language/language_weights.h"
#include "detent/language/quantized/quantization.h"
#include "detent/language/sentence_modules.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kTorchWeights = "pytorch_model.bin";
constexpr const char* kTorchIndex = "pytorch_model.bin.index.json";

const Table& expect_table(const Value& value, const std::string& where) {
  const auto* table = value.get_if<Table>();
  if (table == nullptr) fail("{}: got {}, expected a table", where, value.kind_name());
  return *table;
}

/// Where the index says that a tensor is. A shard is a file of the folder itself.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const Value json = read_json(path);
  const Value* map = expect_table(json, path.string()).find("weight_map");
  if (map == nullptr) fail("{}: there is no key \"weight_map\"", path.string());
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, value] : expect_table(*map, path.string() + ": weight_map")) {
    const auto* shard = value.get_if<std::string>();
    const bool is_name = shard != nullptr && !shard->empty() && fs::path(*shard).filename() == *shard &&
                         shard->find('\\') == std::string::npos && *shard != "." && *shard != "..";
    if (!is_name)
      fail("{}: the shard of {} is {}, expected a name of a file in the same folder", path.string(), tensor,
           value_text(value));
    shards.emplace(tensor, *shard);
  }
  return shards;
}

/// The file of the folder whose name ends so, where there is one alone: older libraries of GPTQ name files
/// after their settings.
std::optional<fs::path> only_file(const fs::path& folder, std::string_view end) {
  std::optional<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().ends_with(end)) continue;
    if (found) return std::nullopt;
    found = entry.path();
  }
  return found;
}

/// Files of PyTorch count where there are no others: folders of before safetensors.
struct WeightFiles {
  std::optional<fs::path> index;  // the list of shards; else one file has all tensors
  fs::path file = {};
};

WeightFiles weights_of(const fs::path& folder) {
  if (fs::exists(folder / kIndex)) return {.index = folder / kIndex};
  if (fs::exists(folder / kWeights)) return {.index = {}, .file = folder / kWeights};
  if (auto index = only_file(folder, ".safetensors.index.json")) return {.index = std::move(index)};
  if (auto file = only_file(folder, ".safetensors")) return {.index = {}, .file = std::move(*file)};
  if (fs::exists(folder / kTorchIndex)) return {.index = folder / kTorchIndex};
  if (fs::exists(folder / kTorchWeights)) return {.index = {}, .file = folder / kTorchWeights};
  fail("{}: there is neither {} nor {}, nor one other file .safetensors alone, nor {} or {}", folder.string(),
       kWeights, kIndex, kTorchWeights, kTorchIndex);
}

bool is_torch_file(const fs::path& file) { return file.extension() == ".bin"; }

StateDict tensors_of(const fs::path& file) {
  if (is_torch_file(file)) return read_state_dict(file);
  return read_safetensors(file, TensorCheck::kNow).tensors;
}

std::vector<fs::path> files_of(const fs::path& folder) {
  const WeightFiles found = weights_of(folder);
  if (!found.index) return {found.file};
  const fs::path& index = *found.index;
  std::set<std::string> names;
  for (const auto& [tensor, shard] : read_index(index)) names.insert(shard);
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    files.push_back(folder / name);
    if (!fs::exists(files.back())) fail("{}: the shard {} is missing", index.string(), name);
  }
  return files;
}

constexpr std::string_view kBlocks = "_blocks";
constexpr std::string_view kScales = "_scales";
constexpr int64_t kBlock = 32;  // elements with a scale

bool is_block_part(std::string_view name, std::string_view end, const Tensor& tensor, int64_t rank) {
  return name.ends_with(end) && tensor.rank() == rank && tensor.dtype() == DType::kUInt8;
}

constexpr float kElements[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

/// MXFP4 as GPT-OSS stores it: two elements a byte, the low half first, times 2^(scale - 127).
Tensor decoded(const Tensor& codes, const Tensor& scales) {
  constexpr int kBias = 127;
  Tensor result(DType::kFloat32, {codes.dim(0), codes.dim(1) * kBlock});
  const auto bytes = codes.values<uint8_t>();
  const auto exponents = scales.values<uint8_t>();
  const auto values = result.values<float>();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int exponent = exponents[2 * i / static_cast<size_t>(kBlock)] - kBias;
    values[2 * i] = std::ldexp(kElements[bytes[i] & 15U], exponent);
    values[2 * i + 1] = std::ldexp(kElements[bytes[i] >> 4U], exponent);
  }
  return result;
}

/// Tensors of one file or of several, mapped.
class FolderTensors final : public StoredTensors {
 public:
  FolderTensors(const fs::path& folder, const LanguageFamily& family, const NetworkHead& head)
      : folder_(folder) {
    for (const fs::path& file : files_of(folder)) {
      for (auto& [name, tensor] : tensors_of(file)) {
        if (!shards_.emplace(name, file.filename().string()).second)
          fail("{}: the tensor {} is in several shards", folder.string(), name);
        add(name, tensor);
      }
    }
    if (const auto index = weights_of(folder).index) check_index(*index);
    for (const auto& [name, codes] : blocks_) check_scales(name, codes);
    join_norms_of_heads();
    if (!head.folder.empty()) add_layer(folder / head.folder, head.layer);
    take_matrices(family);
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, matrix] : matrices_) names.push_back(name);
    for (const auto& [name, tensor] : tensors_) {
      if (!is_empty_bias(name, tensor)) names.push_back(name);
    }
    for (const auto& [name, codes] : blocks_) names.push_back(name);
    return names;
  }
  std::optional<Shape> shape(const std::string& name) const override {
    if (const auto codes = blocks_.find(name); codes != blocks_.end())
      return Shape{codes->second.dim(0), codes->second.dim(1) * kBlock};
    if (const auto matrix = matrices_.find(name); matrix != matrices_.end()) return matrix->second.shape;
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? std::nullopt : std::optional(found->second.shape());
  }
  Tensor values(const std::string& name) override {
    if (const auto codes = blocks_.find(name); codes != blocks_.end())
      return decoded(codes->second, scales_.at(scales_of(name)));
    if (const auto matrix = matrices_.find(name); matrix != matrices_.end()) return matrix->second.values();
    const Tensor& tensor = tensors_.at(name);
    if (!is_floating_point(tensor.dtype()) || tensor.dtype() == DType::kFloat32) return tensor;
    Tensor values = to_float32(tensor);
    release_pages(tensor.bytes());  // they are not read again
    return values;
  }
  Tensor rows(const std::string& name, std::span<const int64_t> indices) const override {
    if (const auto matrix = matrices_.find(name); matrix != matrices_.end())
      return matrix->second.rows(indices);
    const Tensor& table = tensors_.at(name);
    Tensor rows(DType::kFloat32, {std::ssize(indices), table.dim(1)});
    auto to = rows.values<float>().begin();
    for (const int64_t index : indices) {
      const Tensor row = to_float32(table.rows(index, index + 1));
      to = std::ranges::copy(row.values<float>(), to).out;
    }
    return rows;
  }
  std::optional<StoredScales> scales(const std::string& name) const override {
    if (const auto matrix = matrices_.find(name); matrix != matrices_.end()) return matrix->second.scales();
    const auto codes = blocks_.find(name);
    if (codes == blocks_.end()) return std::nullopt;
    return StoredScales{.group = kBlock,
                        .scales = float32_scales(scales_.at(scales_of(name)), scales_of(name)),
                        .table = {std::begin(kElements), std::end(kElements)}};
  }
  std::optional<QuantSpec> input_rounding(const std::string& name) const override {
    const auto matrix = matrices_.find(name);
    return matrix == matrices_.end() ? std::nullopt : matrix->second.inputs;
  }
  std::string where() const override { return folder_.string(); }

 private:
  /// Tensors of a folder of their own.
  void add_layer(const fs::path& folder, const std::string& layer) {
    for (const fs::path& file : files_of(folder)) {
      for (auto& [name, tensor] : tensors_of(file))
        tensors_.insert_or_assign(fmt::format("{}.{}", layer, name), tensor);
    }
  }

  /// Whether it is the bias of a quantized matrix, and zeros, as some libraries write it for layers without
  /// one.
  bool is_empty_bias(const std::string& name, const Tensor& tensor) const {
    constexpr std::string_view kBias = ".bias";
    if (!name.ends_with(kBias) || !is_floating_point(tensor.dtype())) return false;
    const std::string stem = name.substr(0, name.size() - kBias.size());
    if (!matrices_.contains(stem + ".weight")) return false;
    const Tensor values = to_float32(tensor);
    return std::ranges::all_of(values.values<float>(), [](float x) { return x == 0; });
  }

  /// Adds the tensor, or the matrix or bias of each expert that it holds.
  void add(const std::string& name, const Tensor& tensor) {
    if (is_block_part(name, kBlocks, tensor, 4) || is_block_part(name, kScales, tensor, 3)) {
      auto& parts = tensor.rank() == 4 ? blocks_ : scales_;
      const Shape shape(tensor.shape().begin() + 1, tensor.shape().end());
      for (int64_t i = 0; i < tensor.dim(0); ++i)
        parts.emplace(name_of_expert(name, i), tensor.rows(i, i + 1).reshaped(shape));
      return;
    }
    if (tensor.rank() == 0) {
      tensors_.emplace(name, tensor.reshaped({1}));
      return;
    }
    const bool is_choice = name.ends_with("e_score_correction_bias") && tensor.rank() == 2;
    if (is_choice && tensor.dim(0) == 1) {
      tensors_.emplace(name, tensor.reshaped({tensor.dim(1)}));
      return;
    }
    const bool are_biases = name.ends_with("_bias") && name.find(".experts.") != std::string::npos;
    const bool are_experts = tensor.rank() == 3 && name.find(".conv.") == std::string::npos;
    if (!are_experts && !(tensor.rank() == 2 && are_biases)) {
      tensors_.emplace(name, tensor);
      return;
    }
    const Shape shape(tensor.shape().begin() + 1, tensor.shape().end());
    for (int64_t i = 0; i < tensor.dim(0); ++i)
      tensors_.emplace(name_of_expert(name, i), tensor.rows(i, i + 1).reshaped(shape));
  }

  /// Matrices that the folder's quantization_config is about, out of their parts.
  void take_matrices(const LanguageFamily& family) {
    const fs::path path = folder_ / kConfig;
    const std::optional<Table> table = quantization_of_folder(folder_, read_json(path));
    if (!table) return;
    const ConfigReader json(*table, path.string() + ": quantization_config");
    if (is_quantization_of(family, json)) return;
    const QuantizationMethod& method = find_quantization_method(json);
    static_cast<void>(method.describe(json));
    FolderParts parts(tensors_, folder_.string());
    matrices_ = method.take(json, parts);
    if (!matrices_.empty() && std::ranges::any_of(family.weights(), &StoredName::transposed))
      fail("{}: networks of the family \"{}\", whose weights are stored as [in, out], are not supported",
           json.where(), family.name);
  }

  /// Weights NAME.norms.0.weight and so on as the rows of NAME.weight (StableLM).
  void join_norms_of_heads() {
    constexpr std::string_view kFirst = ".norms.0.weight";
    std::vector<std::string> stems;
    for (const auto& [name, tensor] : tensors_) {
      if (name.ends_with(kFirst)) stems.push_back(name.substr(0, name.size() - kFirst.size()));
    }
    for (const std::string& stem : stems) {
      std::vector<float> values;
      int64_t rows = 0;
      int64_t size = 0;
      for (;; ++rows) {
        const auto found = tensors_.find(fmt::format("{}.norms.{}.weight", stem, rows));
        if (found == tensors_.end() || !is_floating_point(found->second.dtype())) break;
        const Tensor row = to_float32(found->second);
        if (rows > 0 && row.numel() != size) break;
        size = row.numel();
        values.insert(values.end(), row.values<float>().begin(), row.values<float>().end());
        tensors_.erase(found);
      }
      if (rows > 0) tensors_.insert_or_assign(stem + ".weight", Tensor::from<float>({rows, size}, values));
    }
  }

  static std::string scales_of(const std::string& blocks) {
    return blocks.substr(0, blocks.size() - kBlocks.size()) + std::string(kScales);
  }

  void check_scales(const std::string& name, const Tensor& codes) const {
    const auto scales = scales_.find(scales_of(name));
    const Shape expected = {codes.dim(0), codes.dim(1)};
    if (scales == scales_.end()) fail("{}: there is no tensor {}", where(), scales_of(name));
    if (codes.dim(2) != kBlock / 2 || scales->second.shape() != expected)
      fail("{}: {} has blocks of {} bytes and scales {}, expected 16 and {}", where(), name, codes.dim(2),
           shape_text(scales->second.shape()), shape_text(expected));
  }

  void check_index(const fs::path& index) const {
    for (const auto& [name, shard] : read_index(index)) {
      const auto found = shards_.find(name);
      if (found == shards_.end() || found->second != shard)
        fail("{}: {} is not in the shard {}", index.string(), name, shard);
    }
  }

  fs::path folder_;
  TensorsByName tensors_;
  StoredMatrices matrices_;
  std::map<std::string, Tensor, std::less<>> blocks_;  // codes [rows, blocks, 16] of MXFP4
  std::map<std::string, Tensor, std::less<>> scales_;  // [rows, blocks]
  std::map<std::string, std::string, std::less<>> shards_;
};

}  // namespace

bool is_language_folder(const fs::path& path) { return fs::is_directory(path) && fs::exists(path / kConfig); }

std::optional<std::vector<int64_t>> generation_end_tokens(const fs::path& folder) {
  const fs::path generation = folder / kGeneration;
  if (!fs::exists(generation)) return std::nullopt;
  const Value json = read_json(generation);
  const Value* eos = expect_table(json, generation.string()).find("eos_token_id");
  if (eos == nullptr || eos->is_na()) return std::nullopt;
  std::vector<int64_t> ends;
  const auto add = [&](const Value& value) {
    const auto* id = value.get_if<int64_t>();
    if (id == nullptr)
      fail("{}: \"eos_token_id\" is {}, expected an integer or a list of them", generation.string(),
           value_text(*eos));
    ends.push_back(*id);
  };
  if (const auto* ids = eos->get_if<List>()) {
    std::ranges::for_each(*ids, add);
  } else {
    add(*eos);
  }
  return ends;
}

LanguageConfig read_folder_config(const fs::path& folder) {
  const fs::path path = folder / kConfig;
  LanguageConfig config = read_language_config(read_json(path), path.string());
  read_sentence_modules(folder, config);
  if (auto ends = generation_end_tokens(folder)) config.eos = std::move(*ends);
  return config;
}

Graph read_language_folder(const fs::path& folder) {
  const LanguageConfig config = read_folder_config(folder);
  const LanguageFamily& family = find_language_family(config.family);
  FolderTensors tensors(folder, family, config.head);
  RuledWeights weights(config, weight_rules(family), family.ignored, tensors);
  Graph graph = build_language_graph(config, weights);
  weights.round_inputs_of(graph);
  return graph;
}

LanguageModel read_folder_model(const fs::path& folder) {
  LanguageConfig config = read_folder_config(folder);
  const LanguageFamily& family = find_language_family(config.family);
  auto tensors = std::make_unique<FolderTensors>(folder, family, config.head);
  return deferred_model(std::move(config), weight_rules(family), family.ignored, std::move(tensors));
}

std::string describe_quantization(const fs::path& folder) {
  const fs::path path = folder / kConfig;
  const Value config = read_json(path);
  const std::optional<Table> table = quantization_of_folder(folder, config);
  if (!table) return {};
  const ConfigReader json(*table, path.string() + ": quantization_config");
  const auto family = find_language_family(read_folder_config(folder).family);
  return is_quantization_of(family, json) ? family.quantization
                                          : find_quantization_method(json).describe(json);
}

std::vector<TensorSummary> summarize_language_folder(const fs::path& folder) {
  std::vector<TensorSummary> summaries;
  for (const fs::path& file : files_of(folder)) {
    std::vector<TensorSummary> some =
        is_torch_file(file) ? summarize_checkpoint(file).tensors : summarize_safetensors(file).tensors;
    summaries.insert(summaries.end(), some.begin(), some.end());
  }
  return summaries;
}

}  // namespace detent
