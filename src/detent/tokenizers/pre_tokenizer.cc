#include <array>
#include <memory>

#include "detent/tokenizers/json_object.h"
#include "detent/tokenizers/pattern.h"
#include "detent/tokenizers/text_steps.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

struct Part {
  size_t begin;
  size_t end;
  bool is_delimiter;
};

/// Joins delimiters with what they belong to; parts that are removed are left as delimiters, all others not.
void join(std::vector<Part>& parts, Delimiter delimiter) {
  if (delimiter == Delimiter::kRemoved) return;
  std::vector<Part> joined;
  bool before = false;
  if (delimiter == Delimiter::kMergedWithNext) {
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (part->is_delimiter && !before && !joined.empty()) {
        joined.back().begin = part->begin;
      } else {
        joined.push_back({part->begin, part->end, false});
      }
      before = part->is_delimiter;
    }
    parts.assign(joined.rbegin(), joined.rend());
    return;
  }
  for (const Part& part : parts) {
    const bool merges = (delimiter == Delimiter::kContiguous && part.is_delimiter == before) ||
                        (delimiter == Delimiter::kMergedWithPrevious && part.is_delimiter && !before);
    if (merges && !joined.empty()) {
      joined.back().end = part.end;
    } else {
      joined.push_back({part.begin, part.end, false});
    }
    before = part.is_delimiter;
  }
  parts = std::move(joined);
}

void add_word(std::vector<Words::Word>& words, size_t begin, size_t end, bool at_start) {
  if (begin < end) words.push_back({begin, end, at_start});
}

/// Cuts each word where `find(text, parts)` says.
template <class Find>
void split(Words& words, Delimiter delimiter, const Find& find) {
  std::vector<Words::Word> result;
  result.reserve(words.words.size());
  std::vector<Part> parts;
  for (const Words::Word& word : words.words) {
    parts.clear();
    find(words[word], parts);
    join(parts, delimiter);
    for (const Part& part : parts)
      if (!part.is_delimiter)
        add_word(result, word.begin + part.begin, word.begin + part.end, word.at_start && part.begin == 0);
  }
  words.words = std::move(result);
}

void find_pattern(const Pattern& pattern, std::string_view text, bool invert, std::vector<Part>& parts) {
  size_t last = 0;
  for (const Pattern::Match& match : pattern.find_all(text)) {
    if (match.begin > last) parts.push_back({last, match.begin, invert});
    parts.push_back({match.begin, match.end, !invert});
    last = match.end;
  }
  if (last < text.size()) parts.push_back({last, text.size(), invert});
}

/// Each character that `is_delimiter` names is one.
template <class IsDelimiter>
PreTokenizer by_character(Delimiter delimiter, const IsDelimiter& is_delimiter) {
  return [=](Words& words) {
    split(words, delimiter, [&](std::string_view text, std::vector<Part>& parts) {
      size_t last = 0;
      for (size_t i = 0; i < text.size();) {
        const size_t begin = i;
        if (!is_delimiter(next_character(text, i))) continue;
        if (begin > last) parts.push_back({last, begin, false});
        parts.push_back({begin, i, true});
        last = i;
      }
      if (last < text.size()) parts.push_back({last, text.size(), false});
    });
  };
}

bool is_space(char32_t code) { return properties_of(code).has(kIsSpace); }
bool is_punctuation(char32_t code) { return properties_of(code).has(kIsPunctuation); }

/// Runs of letters, digits and the like, and runs of what is neither that nor space.
void whitespace(Words& words) {
  enum class Class : uint8_t { kNothing, kSpace, kWord, kOther };
  split(words, Delimiter::kRemoved, [](std::string_view text, std::vector<Part>& parts) {
    Class last = Class::kNothing;
    for (size_t i = 0; i < text.size();) {
      const size_t begin = i;
      const CharacterProperties& properties = properties_of(next_character(text, i));
      const Class current = properties.has(kIsWord)    ? Class::kWord
                            : properties.has(kIsSpace) ? Class::kSpace
                                                       : Class::kOther;
      if (current == last) {
        parts.back().end = i;
      } else {
        parts.push_back({begin, i, current == Class::kSpace});
      }
      last = current;
    }
  });
}

enum class PrependScheme : uint8_t { kAlways, kFirst, kNever };

PrependScheme prepend_scheme(const JsonObject& object) {
  const std::string scheme = object.text_or("prepend_scheme", "always");
  if (!object.boolean("add_prefix_space", true)) return PrependScheme::kNever;
  if (scheme == "always") return PrependScheme::kAlways;
  if (scheme == "first") return PrependScheme::kFirst;
  if (scheme == "never") return PrependScheme::kNever;
  fail("{}: \"{}\" (allowed: always, first, never)", object.at("prepend_scheme"), scheme);
}

PreTokenizer metaspace(const JsonObject& object) {
  const char32_t code = character_field(object, "replacement");
  const std::string replacement = to_utf8({&code, 1});
  const PrependScheme scheme = prepend_scheme(object);
  const bool splits = object.boolean("split", true);
  const PreTokenizer cut =
      by_character(Delimiter::kMergedWithNext, [=](char32_t other) { return other == code; });
  return [=](Words& words) {
    std::string text;
    text.reserve(words.text.size() + words.text.size() / 2);
    for (Words::Word& word : words.words) {
      const std::string_view old = words[word];
      const size_t begin = text.size();
      const bool has_one = old.starts_with(' ') || old.starts_with(replacement);
      const bool prepends =
          scheme == PrependScheme::kAlways || (scheme == PrependScheme::kFirst && word.at_start);
      if (prepends && !has_one) text += replacement;
      for (const char byte : old) {
        if (byte == ' ') {
          text += replacement;
        } else {
          text += byte;
        }
      }
      word = {begin, text.size(), word.at_start};
    }
    words.text = std::move(text);
    if (splits) cut(words);
  };
}

/// Pieces of so many characters; the last may be shorter.
PreTokenizer fixed_length(const JsonObject& object) {
  const int64_t length = object.find("length") == nullptr ? 5 : object.integer("length");
  if (length < 1) fail("{} is {}, expected at least 1", object.at("length"), length);
  return [=](Words& words) {
    split(words, Delimiter::kIsolated, [&](std::string_view text, std::vector<Part>& parts) {
      for (size_t i = 0; i < text.size();) {
        const size_t begin = i;
        for (int64_t k = 0; k < length && i < text.size(); ++k) i += character_length(text[i]);
        parts.push_back({begin, i, false});
      }
    });
  };
}

Delimiter delimiter_of(const JsonObject& object) {
  const std::string behavior = object.text_or("behavior", "Isolated");
  if (behavior == "Removed") return Delimiter::kRemoved;
  if (behavior == "Isolated") return Delimiter::kIsolated;
  if (behavior == "MergedWithPrevious") return Delimiter::kMergedWithPrevious;
  if (behavior == "MergedWithNext") return Delimiter::kMergedWithNext;
  if (behavior == "Contiguous") return Delimiter::kContiguous;
  fail("{}: \"{}\" (allowed: Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous)",
       object.at("behavior"), behavior);
}

PreTokenizer made_pre_tokenizer(const JsonObject& object);

PreTokenizer pre_tokenizer_sequence(const JsonObject& object) {
  std::vector<PreTokenizer> steps;
  for (const Value& step : object.list("pretokenizers"))
    steps.push_back(made_pre_tokenizer({step, object.at("pretokenizers")}));
  return in_sequence(std::move(steps));
}

PreTokenizer made_pre_tokenizer(const JsonObject& object) {
  const std::string type = object.type();
  if (type == "Sequence") return pre_tokenizer_sequence(object);
  if (type == "ByteLevel")
    return byte_level(object.boolean("add_prefix_space"),
                      object.boolean("use_regex", true) ? gpt2_pattern() : nullptr);
  if (type == "Split")
    return split_by_pattern(pattern_field(object), delimiter_of(object), object.boolean("invert"));
  if (type == "Whitespace") return whitespace;
  if (type == "WhitespaceSplit") return by_character(Delimiter::kRemoved, &is_space);
  if (type == "Metaspace") return metaspace(object);
  if (type == "BertPreTokenizer")
    return in_sequence(
        {by_character(Delimiter::kRemoved, &is_space), by_character(Delimiter::kIsolated, &is_punctuation)});
  if (type == "Punctuation") return by_character(delimiter_of(object), &is_punctuation);
  if (type == "Digits")
    return by_character(object.boolean("individual_digits") ? Delimiter::kIsolated : Delimiter::kContiguous,
                        [](char32_t code) { return properties_of(code).has(kIsNumeric); });
  if (type == "FixedLength") return fixed_length(object);
  if (type == "CharDelimiterSplit") {
    const char32_t delimiter = character_field(object, "delimiter");
    return by_character(Delimiter::kRemoved, [=](char32_t code) { return code == delimiter; });
  }
  fail(
      "{}: the pre-tokenizer \"{}\" is not supported (supported: BertPreTokenizer, ByteLevel, "
      "CharDelimiterSplit, Digits, "
      "FixedLength, Metaspace, Punctuation, Sequence, Split, Whitespace, WhitespaceSplit)",
      object.name(), type);
}

/// Printable characters stand for themselves, the other bytes for those from U+0100 on, in order.
struct ByteAlphabet {
  std::array<std::string, 256> characters;
  std::array<int, 512> bytes{};

  ByteAlphabet() {
    bytes.fill(-1);
    char32_t next = 256;
    for (size_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      const char32_t code = printable ? static_cast<char32_t>(byte) : next++;
      append_character(characters[byte], code);
      bytes[code] = static_cast<int>(byte);
    }
  }
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

std::string byte_characters(std::string_view bytes) {
  std::string result;
  result.reserve(bytes.size() + bytes.size() / 2);
  for (const char byte : bytes) result += byte_alphabet().characters[static_cast<unsigned char>(byte)];
  return result;
}

std::optional<std::string> bytes_of_characters(std::string_view text) {
  const auto& bytes = byte_alphabet().bytes;
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const char32_t code = next_character(text, i);
    if (code >= bytes.size() || bytes[code] < 0) return std::nullopt;
    result += static_cast<char>(static_cast<unsigned char>(bytes[code]));
  }
  return result;
}

std::shared_ptr<const Pattern> gpt2_pattern() {
  static const auto pattern = std::make_shared<const Pattern>(
      Pattern(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"));
  return pattern;
}

PreTokenizer in_sequence(std::vector<PreTokenizer> steps) {
  return [steps = std::move(steps)](Words& words) {
    for (const PreTokenizer& step : steps) step(words);
  };
}

PreTokenizer split_by_pattern(std::shared_ptr<const Pattern> pattern, Delimiter delimiter, bool invert) {
  return [pattern = std::move(pattern), delimiter, invert](Words& words) {
    split(words, delimiter, [&](std::string_view text, std::vector<Part>& parts) {
      find_pattern(*pattern, text, invert, parts);
    });
  };
}

PreTokenizer byte_level(bool add_prefix_space, std::shared_ptr<const Pattern> pattern) {
  return [add_prefix_space, pattern = std::move(pattern)](Words& words) {
    if (add_prefix_space) {
      std::string text;
      for (Words::Word& word : words.words) {
        const std::string_view old = words[word];
        const size_t begin = text.size();
        if (!old.starts_with(' ')) text += ' ';
        text += old;
        word = {begin, text.size(), word.at_start};
      }
      words.text = std::move(text);
    }
    if (pattern != nullptr)
      split(words, Delimiter::kIsolated, [&](std::string_view text, std::vector<Part>& parts) {
        find_pattern(*pattern, text, false, parts);
      });
    std::string text;
    text.reserve(words.text.size() + words.text.size() / 2);
    for (Words::Word& word : words.words) {
      const size_t begin = text.size();
      for (const char byte : words[word])
        text += byte_alphabet().characters[static_cast<unsigned char>(byte)];
      word = {begin, text.size(), word.at_start};
    }
    words.text = std::move(text);
  };
}

PreTokenizer make_pre_tokenizer(const Value& value, const std::string& name) {
  if (value.is_na()) return {};
  return made_pre_tokenizer({value, name});
}

}  // namespace detent
