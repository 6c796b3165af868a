#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/language/decoder.h"
#include "detent/tokenizers/tokenizer.h"

namespace detent {

/// The decoder of a network of language: a folder of Hugging Face, a GGUF file, or a graph (.mz) of either.
Decoder read_decoder(const std::filesystem::path& path);

/// The decoder of a graph that was read from there; messages name it.
Decoder decoder_of(Graph graph, const std::filesystem::path& path);

/// The tokenizer that comes with a network: of the folder that it is or lies in, or of the GGUF file. nullopt
/// where there is none.
std::optional<Tokenizer> find_tokenizer(const std::filesystem::path& path);

/// The template of chats that comes with it, likewise.
std::optional<std::string> find_model_template(const std::filesystem::path& path);

/// The tokens that end a text: those that a folder or GGUF file names, else the tokenizer's.
std::vector<int64_t> end_tokens(const std::filesystem::path& path, const std::optional<Tokenizer>& tokenizer);

}  // namespace detent
