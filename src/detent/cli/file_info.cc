#include "detent/cli/file_kind.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/cli/network_info.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/safetensors.h"
#include "detent/graph_files/packed_tensors.h"
#include "detent/language/language_model.h"
#include "detent/language/language_weights.h"
#include "detent/onnx/import_onnx.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Packed tensors by their own names, with their formats for dtypes.
std::vector<TensorSummary> packed_tensors(const SafetensorsFile& file, const fs::path& path) {
  std::vector<TensorSummary> result;
  for (const StoredTensor& tensor : unpack_tensors(file, path.string())) {
    if (const auto* plain = std::get_if<Tensor>(&tensor.content)) {
      result.push_back(
          {tensor.name, std::string(dtype_name(plain->dtype())), plain->shape(), plain->byte_size()});
      continue;
    }
    const Encoded& encoded = std::get<Encoded>(tensor.content);
    uint64_t bytes = 0;
    for (const EncodedStream& stream : encoded.streams) bytes += stream.data.byte_size();
    result.push_back({tensor.name, quant_spec_text(encoded.spec), encoded.shape, bytes});
  }
  return result;
}

std::string activation_text(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return "relu";
    case Activation::kSquaredRelu:
      return "relu squared";
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu by tanh";
    case Activation::kXielu:
      return "xielu";
    case Activation::kTanh:
      return "tanh";
    case Activation::kSilu:
      break;
  }
  return "silu";
}

std::string heads_text(const LanguageConfig& config) {
  const std::string text = fmt::format("{} of queries, {} of keys and values, {} elements each", config.heads,
                                       config.kv_heads, config.head_size);
  if (config.latent.rank == 0) return text;
  return fmt::format("{}, {} of values, out of rows of {}", text, config.size_of_values(),
                     config.latent.rank);
}

std::string kind_text(const LanguageConfig& config) {
  const char* const kind = config.is_causal ? "causal" : "encoder";
  switch (config.head.kind) {
    case HeadKind::kTokenLabels:
      return fmt::format("{}: gives logits of {} labels for each token", kind, config.head.labels);
    case HeadKind::kSequenceLabels:
      return fmt::format("{}: gives logits of {} labels", kind, config.head.labels);
    case HeadKind::kTokenScores:
      return fmt::format("{}: gives a logit of each token", kind);
    case HeadKind::kMaskedTokens:
      return fmt::format("{}: gives logits of masked tokens", kind);
    case HeadKind::kMaskedTokensAndLabels:
      return fmt::format("{}: gives prediction_logits of masked tokens, and {} of {} labels", kind,
                         config.head.result, config.head.labels);
    case HeadKind::kSpan:
      return fmt::format("{}: gives logits of the start and the end of an answer", kind);
    case HeadKind::kEmbedding:
      return fmt::format("{}: gives last_hidden_state and {}{}", kind, config.head.result,
                         config.head.is_normalized ? ", normalized" : "");
    case HeadKind::kNone:
      break;
  }
  return config.is_causal ? "causal: gives logits" : "encoder: gives last_hidden_state";
}

/// Labels with their numbers.
std::string labels_text(const std::vector<std::string>& names) {
  constexpr size_t kMostShown = 32;
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(names.size(), kMostShown); ++i)
    texts.push_back(fmt::format("{} {}", i, names[i]));
  const std::string rest =
      names.size() > kMostShown ? fmt::format(" and {} more", names.size() - kMostShown) : "";
  return fmt::format("{}{}", fmt::join(texts, ", "), rest);
}

std::string positions_text(const LanguageConfig& config) {
  if (config.positions > 0) return fmt::format("a table of {} rows", config.positions);
  if (config.distance_slopes > 0) return "slopes of distances in the scores";
  if (config.distances > 0) return fmt::format("biases of scores by distance, {} rows", config.distances);
  if (config.disentangled.span > 0)
    return fmt::format("products with rows by distance, {} rows", 2 * config.disentangled.span);
  const size_t turning = 2 * config.rotary.frequencies.size();
  return fmt::format("rotary, {} of {} elements of each head", turning, config.head_size);
}

std::string window_text(const LanguageConfig& config) {
  const auto layers = config.has_window.empty() ? config.layers : std::ranges::count(config.has_window, true);
  return fmt::format("{} tokens in {} of {} layers", config.window, layers, config.layers);
}

/// How many bytes tensors of each element type take.
std::string dtypes_text(const std::vector<TensorSummary>& tensors) {
  std::map<std::string, uint64_t> bytes;
  for (const TensorSummary& tensor : tensors) bytes[tensor.dtype] += tensor.byte_size;
  std::vector<std::string> texts;
  for (const auto& [dtype, count] : bytes) texts.push_back(fmt::format("{} {} bytes", dtype, count));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Table language_facts(const LanguageConfig& config, const std::vector<TensorSummary>& tensors) {
  int64_t parameters = 0;
  for (const NamedShape& weight : expected_weights(config)) parameters += element_count(weight.shape);
  Table facts{{"family", config.family},
              {"kind of network", kind_text(config)},
              {"parameters", parameters},
              {"layers", config.layers},
              {"hidden size", config.hidden},
              {"heads", heads_text(config)},
              {"perceptron", fmt::format("{}, {}{}", config.intermediate, activation_text(config.activation),
                                         config.perceptron == PerceptronKind::kGated ? ", gated" : "")},
              {"norm", config.norm == NormKind::kLayerNorm ? "layer_norm" : "rms_norm"},
              {"positions", positions_text(config)},
              {"context", config.context},
              {"vocabulary", config.vocabulary},
              {"tied head", config.has_vocabulary_head() && config.tied_head}};
  if (!config.head.names.empty()) facts["labels"] = labels_text(config.head.names);
  if (config.window > 0) facts["window"] = window_text(config);
  facts["formats"] = dtypes_text(tensors);
  return facts;
}

}  // namespace

FileInfo language_info(const fs::path& path, const InputShapes& /*shapes*/) {
  const fs::path folder = fs::absolute(path).parent_path();
  const LanguageConfig config = read_folder_config(folder);
  FileInfo info{"language model", summarize_language_folder(folder), {}};
  info.facts = language_facts(config, info.tensors);
  const bool has_tokenizer = fs::exists(folder / "tokenizer.json") || fs::exists(folder / "tokenizer.model");
  if (const std::string text = describe_quantization(folder); !text.empty())
    info.facts["quantization"] = text;
  info.facts["tokenizer"] = has_tokenizer ? "in the folder" : "none in the folder";
  return info;
}

FileInfo graph_info(const fs::path& path, const InputShapes& shapes) {
  Graph graph = read_network(path, shapes);
  FileInfo info{.kind = "graph", .tensors = {}, .facts = network_facts(graph)};
  info.facts["name"] = graph.name();
  const SafetensorsFile file = read_safetensors(path, TensorCheck::kLater);
  info.tensors = packed_tensors(file, path);
  const int64_t packed = std::ssize(file.metadata) - std::ssize(plain_metadata(file));
  if (packed > 0) info.facts["packed parameters"] = packed;
  info.graph = std::move(graph);
  return info;
}

void add_parameters(const Graph& graph, const std::string& prefix, std::vector<TensorSummary>& tensors) {
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, parameter] : node.parameters) {
      const Tensor& tensor = parameter->tensor;
      tensors.push_back({prefix + node.parameter_key(name), std::string(dtype_name(tensor.dtype())),
                         tensor.shape(), tensor.byte_size()});
    }
    if (node.body != nullptr) add_parameters(*node.body, prefix + node.name + ".", tensors);
  }
}

FileInfo onnx_info(const fs::path& path, const InputShapes& shapes) {
  std::string reason;
  Graph graph = import_onnx_at_any_size(path, shapes, reason);
  FileInfo info{.kind = "ONNX model", .tensors = {}, .facts = network_facts(graph)};
  if (!reason.empty())
    info.facts["only with known sizes"] =
        fmt::format("open ones are those above; --shape gives others, and samples and arrays do: {}", reason);
  info.facts["name"] = graph.name();
  add_parameters(graph, "", info.tensors);
  info.graph = std::move(graph);
  return info;
}

FileInfo safetensors_info(const fs::path& path, const InputShapes& /*shapes*/) {
  SafetensorsSummary summary = summarize_safetensors(path);
  FileInfo info{"safetensors", std::move(summary.tensors), {}};
  const SafetensorsFile metadata{{}, std::move(summary.metadata)};
  const auto plain = plain_metadata(metadata);
  for (const auto& [key, value] : plain) info.facts[key] = value;
  if (plain.size() == metadata.metadata.size()) return info;
  info.kind = "safetensors with packed tensors";
  info.tensors = packed_tensors(read_safetensors(path, TensorCheck::kLater), path);
  return info;
}

FileInfo npy_info(const fs::path& path, const InputShapes& /*shapes*/) {
  const auto file = map_file(path);
  const std::span<const std::byte> bytes = file->bytes();
  const auto prefix = bytes.first(std::min(bytes.size(), kNpyPrefixBytes));
  FileInfo info{"NumPy array", {summarize_npy(prefix, bytes.size(), path.string())}, {}};
  info.tensors.front().name = path.stem().string();
  return info;
}

FileInfo checkpoint_info(const fs::path& path, const InputShapes& /*shapes*/) {
  CheckpointSummary summary = summarize_checkpoint(path);
  return {summary.lightning ? "PyTorch Lightning checkpoint" : "PyTorch checkpoint",
          std::move(summary.tensors), std::move(summary.facts)};
}

FileInfo npz_info(const fs::path& path, const InputShapes& /*shapes*/) {
  return {"NumPy archive", summarize_npz(path), {}};
}

}  // namespace detent
