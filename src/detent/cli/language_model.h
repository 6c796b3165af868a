#pragma once

#include <filesystem>
#include <optional>

#include "detent/language/decoder.h"
#include "detent/tokenizers/tokenizer.h"

namespace detent {

/// The decoder of a network of language: a folder of Hugging Face, a GGUF file, or a graph (.mz) of either.
Decoder read_decoder(const std::filesystem::path& path);

/// The tokenizer that comes with a network: of the folder that it is or lies in, or of the GGUF file. nullopt
/// where there is none.
std::optional<Tokenizer> find_tokenizer(const std::filesystem::path& path);

}  // namespace detent
