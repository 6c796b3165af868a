#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/value.h"
#include "detent/tokenizers/pattern.h"

namespace detent {

/// A piece of the text that is encoded.
struct NormalizedText {
  std::string text;
  /// Whether it begins with the first character of the whole text: some tokenizers put "▁" before that only.
  bool at_start = true;
};

/// Rewrites a text; an empty function leaves it as it is.
using Normalizer = std::function<void(NormalizedText&)>;

/// A text, cut into words that are tokenized each by itself.
struct Words {
  struct Word {
    size_t begin;
    size_t end;
    bool at_start;
  };
  std::string text;
  std::vector<Word> words;

  std::string_view operator[](const Word& word) const {
    return std::string_view(text).substr(word.begin, word.end - word.begin);
  }
};

using PreTokenizer = std::function<void(Words&)>;

/// Rewrites tokens, which are then joined.
using TokenDecoder = std::function<void(std::vector<std::string>&)>;

/// These read an object of tokenizer.json; `name` begins messages. NA: an empty function.
Normalizer make_normalizer(const Value& value, const std::string& name);
PreTokenizer make_pre_tokenizer(const Value& value, const std::string& name);
TokenDecoder make_token_decoder(const Value& value, const std::string& name);

/// Where a separator goes when it cuts a text.
enum class Delimiter : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

PreTokenizer split_by_pattern(std::shared_ptr<const Pattern> pattern, Delimiter delimiter, bool invert);
/// Bytes as the printable characters of GPT-2's vocabulary, after `pattern` (may be null).
PreTokenizer byte_level(bool add_prefix_space, std::shared_ptr<const Pattern> pattern);
PreTokenizer in_sequence(std::vector<PreTokenizer> steps);
Normalizer in_sequence(std::vector<Normalizer> steps);
TokenDecoder in_sequence(std::vector<TokenDecoder> steps);
TokenDecoder byte_level_decoder();
TokenDecoder byte_fallback_decoder();

/// A word in the characters that stand for its bytes, and back: nothing where other characters are in it.
std::string byte_characters(std::string_view bytes);
std::optional<std::string> bytes_of_characters(std::string_view text);

/// The words that GPT-2 cuts texts into.
std::shared_ptr<const Pattern> gpt2_pattern();

/// Throws Error where a text of a few bytes becomes one of many megabytes: rules of a file may multiply.
void check_growth(size_t size, size_t before);

/// Bytes in base64; throws Error on what is none.
std::string from_base64(std::string_view text, const std::string& name);

}  // namespace detent
