#include <algorithm>
#include <array>
#include <memory>

#include "detent/tokenizers/character_map.h"
#include "detent/tokenizers/json_object.h"
#include "detent/tokenizers/pattern.h"
#include "detent/tokenizers/text_steps.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

/// Without the characters that `drops` names.
template <class Drops>
void filter(NormalizedText& text, const Drops& drops) {
  std::string result;
  result.reserve(text.text.size());
  for (size_t i = 0; i < text.text.size();) {
    const size_t begin = i;
    const char32_t code = next_character(text.text, i);
    if (!drops(code)) {
      result.append(text.text, begin, i - begin);
    } else if (result.empty()) {
      text.at_start = false;
    }
  }
  text.text = std::move(result);
}

/// Each character's image, appended by `map(code, result)`.
template <class Map>
void map_characters(NormalizedText& text, const Map& map) {
  std::string result;
  result.reserve(text.text.size());
  for (size_t i = 0; i < text.text.size();) map(next_character(text.text, i), result);
  text.text = std::move(result);
}

bool is_space_character(char32_t code) { return properties_of(code).has(kIsSpace); }

void strip(NormalizedText& text, bool left, bool right) {
  std::string& all = text.text;
  size_t begin = 0;
  size_t last_end = 0;
  bool leading = true;
  for (size_t i = 0; i < all.size();) {
    const bool space = is_space_character(next_character(all, i));
    if (!space) leading = false;
    if (leading) begin = i;
    if (!space) last_end = i;
  }
  const size_t end = right ? last_end : all.size();
  if (!left) begin = 0;
  if (left && begin > 0) text.at_start = false;
  all = begin < end ? all.substr(begin, end - begin) : "";
}

void replace(NormalizedText& text, const Pattern& pattern, const std::string& content) {
  const auto matches = pattern.find_all(text.text);
  if (matches.empty()) return;
  std::string result;
  size_t last = 0;
  for (const Pattern::Match& match : matches) {
    result.append(text.text, last, match.begin - last);
    result += content;
    check_growth(result.size(), text.text.size());
    last = match.end;
  }
  result.append(text.text, last);
  const Pattern::Match& first = matches.front();
  const bool one_character = first.end > 0 && first.end == character_length(text.text[0]);
  if (first.begin == 0 && (content.empty() || !one_character) && first.end > 0) text.at_start = false;
  text.text = std::move(result);
}

struct Block {
  char32_t first;
  char32_t last;
};
/// CJK ideographs, as BERT's original code lists them.
constexpr Block kIdeographs[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                 {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                 {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};

bool is_ideograph(char32_t code) {
  return std::ranges::any_of(kIdeographs,
                             [&](const Block& block) { return code >= block.first && code <= block.last; });
}

void clean_for_bert(NormalizedText& text) {
  const auto is_kept_control = [](char32_t code) { return code == '\t' || code == '\n' || code == '\r'; };
  filter(text, [&](char32_t code) {
    return code == 0 || code == 0xFFFD || (!is_kept_control(code) && properties_of(code).has(kIsControl));
  });
  map_characters(text, [](char32_t code, std::string& result) {
    append_character(result, is_space_character(code) ? U' ' : code);
  });
}

Normalizer bert(const JsonObject& object) {
  const bool clean = object.boolean("clean_text");
  const bool ideographs = object.boolean("handle_chinese_chars");
  const bool lower = object.boolean("lowercase");
  const bool accents = object.boolean("strip_accents", lower);
  return [=](NormalizedText& text) {
    if (clean) clean_for_bert(text);
    if (ideographs) {
      map_characters(text, [](char32_t code, std::string& result) {
        const bool apart = is_ideograph(code);
        if (apart) result += ' ';
        append_character(result, code);
        if (apart) result += ' ';
      });
    }
    if (accents) {
      text.text = normalized(text.text, NormalForm::kNfd);
      filter(text, [](char32_t code) { return properties_of(code).has(kIsNonspacingMark); });
    }
    if (lower) text.text = lowercase(text.text);
  };
}

/// The rules of SentencePiece's nmt_* for control characters and spaces.
void nmt(NormalizedText& text) {
  filter(text, [](char32_t code) {
    return (code >= 0x1 && code <= 0x8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F ||
           code == 0x8F || code == 0x9F;
  });
  map_characters(text, [](char32_t code, std::string& result) {
    constexpr auto kSpaces =
        std::to_array<char32_t>({0x9, 0xA, 0xC, 0xD, 0x1680, 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD});
    const bool space =
        std::ranges::find(kSpaces, code) != kSpaces.end() || (code >= 0x200B && code <= 0x200F);
    append_character(result, space ? U' ' : code);
  });
}

Normalizer form(NormalForm which) {
  return [which](NormalizedText& text) { text.text = normalized(text.text, which); };
}

Normalizer made_normalizer(const JsonObject& object);

Normalizer normalizer_sequence(const JsonObject& object) {
  std::vector<Normalizer> steps;
  for (const Value& step : object.list("normalizers"))
    steps.push_back(made_normalizer({step, object.at("normalizers")}));
  return in_sequence(std::move(steps));
}

Normalizer made_normalizer(const JsonObject& object) {
  const std::string type = object.type();
  if (type == "Sequence") return normalizer_sequence(object);
  if (type == "NFC") return form(NormalForm::kNfc);
  if (type == "NFD") return form(NormalForm::kNfd);
  if (type == "NFKC") return form(NormalForm::kNfkc);
  if (type == "NFKD") return form(NormalForm::kNfkd);
  if (type == "Lowercase") return [](NormalizedText& text) { text.text = lowercase(text.text); };
  if (type == "StripAccents")
    return [](NormalizedText& text) {
      filter(text, [](char32_t code) { return properties_of(code).has(kIsCombiningMark); });
    };
  if (type == "Strip") {
    const bool left = object.boolean("strip_left");
    const bool right = object.boolean("strip_right");
    return [=](NormalizedText& text) { strip(text, left, right); };
  }
  if (type == "Replace") {
    const auto pattern = pattern_field(object);
    const std::string content = object.text("content");
    return [=](NormalizedText& text) { replace(text, *pattern, content); };
  }
  if (type == "Prepend") {
    const std::string prefix = object.text("prepend");
    return [=](NormalizedText& text) {
      if (!text.text.empty()) text.text.insert(0, prefix);
    };
  }
  if (type == "BertNormalizer") return bert(object);
  if (type == "Nmt") return nmt;
  if (type == "ByteLevel") return [](NormalizedText& text) { text.text = byte_characters(text.text); };
  if (type == "Precompiled") {
    const std::string bytes = from_base64(object.text_or("precompiled_charsmap", ""), object.name());
    if (bytes.empty()) return [](NormalizedText&) {};
    const auto map = std::make_shared<const CharacterMap>(bytes, object.name());
    return [=](NormalizedText& text) { text.text = map->map_clusters(text.text); };
  }
  fail(
      "{}: the normalizer \"{}\" is not supported (supported: BertNormalizer, ByteLevel, Lowercase, NFC, "
      "NFD, NFKC, "
      "NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, Strip, StripAccents)",
      object.name(), type);
}

}  // namespace

Normalizer in_sequence(std::vector<Normalizer> steps) {
  return [steps = std::move(steps)](NormalizedText& text) {
    for (const Normalizer& step : steps) step(text);
  };
}

void check_growth(size_t size, size_t before) {
  constexpr size_t kAlwaysAllowed = size_t{1} << 25;
  constexpr size_t kMostTimes = 32;
  if (size > kAlwaysAllowed && size / kMostTimes > before)
    fail("the tokenizer makes {} bytes of a text of {}: at most {} times as many are supported", size, before,
         kMostTimes);
}

Normalizer make_normalizer(const Value& value, const std::string& name) {
  if (value.is_na()) return {};
  return made_normalizer({value, name});
}

std::string from_base64(std::string_view text, const std::string& name) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr size_t kGroup = 4;
  if (text.size() % kGroup != 0)
    fail("{}: got {} characters of base64, expected whole groups of {}", name, text.size(), kGroup);
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string result;
  uint32_t bits = 0;
  int count = 0;
  for (const char character : text) {
    const size_t digit = kDigits.find(character);
    if (digit == std::string_view::npos) fail("{}: '{}' is no base64", name, character);
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    result += static_cast<char>(static_cast<unsigned char>(bits >> count & 0xFFU));
  }
  return result;
}

}  // namespace detent
