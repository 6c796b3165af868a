#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/files/array_files.h"
#include "detent/graph/graph.h"
#include "detent/language/language_config.h"

namespace detent {

class DeferredWeights;

/// A language model as a folder or a file has it.
struct LanguageModel {
  LanguageConfig config;
  Graph graph;
  /// Where there are some, matrices of the graph have their shapes alone: for Decoder.
  std::shared_ptr<const DeferredWeights> weights = {};
};

/// Whether it is a Hugging Face folder: it has a config.json.
bool is_language_folder(const std::filesystem::path& path);

/// Reads the folder's config.json, and generation_config.json if present.
LanguageConfig read_folder_config(const std::filesystem::path& folder);

/// The tokens that end a text, as the generation_config.json of a folder names them; nullopt where it has no
/// such file, or the file does not name them.
std::optional<std::vector<int64_t>> generation_end_tokens(const std::filesystem::path& folder);

/// The network: weights of model.safetensors, or of the shards that model.safetensors.index.json lists. They
/// are mapped; those in float32 stay views of the files. Throws Error naming file, key and tensor.
Graph read_language_folder(const std::filesystem::path& folder);
/// The same for a decoder: matrices stay in the files until it packs them, and the table of tokens for good.
LanguageModel read_folder_model(const std::filesystem::path& folder);

/// In a line, how its matrices are quantized and what of that is not applied; empty where they are not.
std::string describe_quantization(const std::filesystem::path& folder);

/// Its tensors in file order.
std::vector<TensorSummary> summarize_language_folder(const std::filesystem::path& folder);

/// The tokens that end a text by the metadata of a GGUF file.
std::vector<int64_t> gguf_end_tokens(const GgufMetadata& metadata);

/// Architecture from the metadata of a GGUF file and the names of its tensors. Throws Error naming file and
/// key: an architecture that is unknown with the nearest one, a missing key, a file that is a part of
/// several.
LanguageConfig read_gguf_config(const GgufFile& file);

/// The network. Tensors are decoded to float32; those of blocks are copies, float32 ones views of the file.
/// Queries and keys, whose rows llama.cpp reorders for some architectures, are in the order of Hugging Face's
/// files again.
Graph read_language_gguf(const std::filesystem::path& path);

/// The same for a decoder: matrices stay in the file until it packs them, as far as it can in the codes and
/// scales of their blocks, and the table of tokens stays there.
LanguageModel read_gguf_model(const std::filesystem::path& path);

}  // namespace detent
