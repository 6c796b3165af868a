#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/language/decoder.h"
#include "detent/language/language_model.h"
#include "detent/tokenizers/tokenizer.h"

namespace detent {

/// Vectors that packing and runs of language models take and give back are kept out of the heap from here on
/// (core/resident_memory.h): else they leave half as much again as is announced. Smaller ones stay in it, as
/// fresh pages for each would take longer than what is computed in them.
inline constexpr int kLargeVectorOfLanguage = 1 << 20;

/// The decoder of a network of language: a folder of Hugging Face, a GGUF file, or a graph (.mz) of either.
/// Keys and values are kept in the format, if there is one (language/cache_format.h).
Decoder read_decoder(const std::filesystem::path& path,
                     const std::optional<Format>& cache_format = std::nullopt);

/// What --cache-format says; nullopt of an empty text.
std::optional<Format> cache_format_option(const std::string& text);
inline constexpr const char* kCacheFormatHelp =
    "keep keys and values in this format, each token's part of a head with a scale of its own: int8, int4, "
    "fp8_e4m3fn; default: as the network computes them";

/// The decoder of what was read from there; messages name it.
Decoder decoder_of(LanguageModel model, const std::filesystem::path& path);

/// The tokenizer that comes with a network: of the folder that it is or lies in, or of the GGUF file. nullopt
/// where there is none.
std::optional<Tokenizer> find_tokenizer(const std::filesystem::path& path);

/// The template of chats that comes with it, likewise.
std::optional<std::string> find_model_template(const std::filesystem::path& path);

/// The tokens that end a text: those that a folder or GGUF file names, else the tokenizer's.
std::vector<int64_t> end_tokens(const std::filesystem::path& path, const std::optional<Tokenizer>& tokenizer);

}  // namespace detent
