#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/files/tensor_summary.h"
#include "detent/language/language_config.h"
#include "detent/language/language_model.h"

namespace detent {

/// Whether it is a folder as Hugging Face's libraries save a model: it has a config.json.
bool is_language_folder(const std::filesystem::path& path);

/// What the folder's config.json, and generation_config.json where it is there, say.
LanguageConfig read_folder_config(const std::filesystem::path& folder);

/// The network: weights of model.safetensors, or of the shards that model.safetensors.index.json lists. They
/// are mapped; those in float32 stay views of the files. Throws Error naming file, key and tensor.
Graph read_language_folder(const std::filesystem::path& folder);
/// The same for a decoder: matrices stay in the files until it packs them, and the table of tokens for good.
LanguageModel read_folder_model(const std::filesystem::path& folder);

/// Its tensors, in the order of the files.
std::vector<TensorSummary> summarize_language_folder(const std::filesystem::path& folder);

}  // namespace detent
