#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/language/decoder.h"
#include "detent/language/language_model.h"
#include "detent/language/multiple_choice.h"
#include "detent/tokenizers/tokenizer.h"

namespace detent {

/// Vectors that packing and runs of language models take and give back are kept out of the heap from here on
/// (core/process_resources.h): else they leave half as much again as is announced. Smaller ones stay in it,
/// as fresh pages for each would take longer than what is computed in them.
inline constexpr int kLargeVectorOfLanguage = 1 << 20;

/// The decoder of a network of language: a folder of Hugging Face, a GGUF file, or a graph (.mz) of either.
/// Keys and values are kept in the format, if there is one (language/cache_format.h).
Decoder read_decoder(const std::filesystem::path& path,
                     const std::optional<Format>& cache_format = std::nullopt);

/// Value of --cache-format; nullopt of an empty text.
std::optional<Format> cache_format_option(const std::string& text);
inline constexpr const char* kCacheFormatHelp =
    "keep keys and values in this format, each token's part of a head with a scale of its own: int8, int4, "
    "fp8_e4m3fn; default: as the network computes them";

/// The decoder of what was read from there; messages name it.
Decoder decoder_of(LanguageModel model, const std::filesystem::path& path);

/// The tokenizer that comes with a network: of the folder that it is or lies in, or of the GGUF file or a
/// header of one in that folder. nullopt where there is none. A tokenizer.json or tokenizer.model is its own.
std::optional<Tokenizer> find_tokenizer(const std::filesystem::path& path);

/// The template of chats that comes with it, likewise.
std::optional<std::string> find_model_template(const std::filesystem::path& path);

/// The tokens that end a text: those that a folder or GGUF file names, else the tokenizer's.
std::vector<int64_t> end_tokens(const std::filesystem::path& path, const std::optional<Tokenizer>& tokenizer);

/// The header of a GGUF file, kept for its tokenizer.
constexpr const char* kGgufTokenizer = "tokenizer.gguf";

/// A file that lies beside a network of language, for its tokenizer, its chat template or the tokens that end
/// a text.
struct LanguageFile {
  std::string name;
  std::function<std::string()> content;
};

/// Files that a folder needs so that a network made from this one has the same texts there: those of the
/// folder that `network` is or lies in, or the header of a GGUF file. Empty where it has no tokenizer, and
/// where `graph`, which was read from there, is no network of language.
std::vector<LanguageFile> language_files(const std::filesystem::path& network, const Graph& graph);

/// Writes them into a folder that may hold other things. Throws Error naming a file, before anything is
/// written, where one with another content is there, unless `overwrite`, and where a tokenizer of another
/// kind is there, which readers would take.
void write_language_files(const std::vector<LanguageFile>& files, const std::filesystem::path& folder,
                          bool overwrite);

/// Questions, a JSON object a line: {"context": TEXT, "choices": [TEXT, ...], "answer": INDEX}, or with ids
/// of tokens,
/// {"context_ids": [...], "choice_ids": [[...], ...], "answer": INDEX}, where a token counts as a byte. A
/// choice is what the tokens of context and choice together have after as many as the context alone has;
/// blanks at the end of a context belong to its choices. Throws Error naming file and line; texts need a
/// tokenizer.
std::vector<Question> read_questions(const std::filesystem::path& path, const Tokenizer* tokenizer);

/// One of them; `where` begins messages.
Question question_of(const Value& object, const std::string& where, const Tokenizer* tokenizer);

}  // namespace detent
