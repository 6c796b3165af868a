#pragma once

#include <filesystem>

#include "detent/graph/graph.h"
#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/language/language_config.h"
#include "detent/language/language_model.h"

namespace detent {

/// What the metadata of a GGUF file and the names of its tensors say of the network. Throws Error naming file
/// and key: an architecture that is unknown with the nearest one, a missing key, a file that is a part of
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
