#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace detent {

/// General categories, as the regular expressions of tokenizers name them.
enum class Category : uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCo,
  kCn,
};

/// Bits of `CharacterProperties::flags`.
enum CharacterFlag : uint32_t {
  kIsSpace = 1U << 0,
  kIsPatternWord = 1U << 1,  // \w of regular expressions in tokenizer.json
  kIsWord = 1U << 2,         // \w elsewhere
  kIsNumeric = 1U << 3,
  kIsPunctuation = 1U << 4,
  kIsControl = 1U << 5,
  kIsNonspacingMark = 1U << 6,
  kIsCombiningMark = 1U << 7,
};

/// Role of a character in a grapheme cluster.
enum class ClusterPart : uint8_t {
  kOther,
  kControl,
  kExtend,
  kSpacingMark,
  kPrepend,
  kL,
  kV,
  kT,
  kLV,
  kLVT,
  kPictographic
};

enum class Script : uint8_t {
  kOther,
  kHan,
  kHiragana,
  kKatakana,
  kHangul,
  kLatin,
  kCyrillic,
  kGreek,
  kThai,
  kArabic,
  kHebrew,
  kDevanagari
};

struct CharacterProperties {
  Category category = Category::kCn;
  uint8_t flags = 0;
  ClusterPart cluster_part = ClusterPart::kOther;
  Script script = Script::kOther;
  bool has(CharacterFlag flag) const { return (flags & flag) != 0; }
  bool operator==(const CharacterProperties&) const = default;
};

/// Any code below 0x110000; those above count as unassigned.
const CharacterProperties& properties_of(char32_t code);

/// The character that begins at `position`, which moves past it. `text` is valid UTF-8.
inline char32_t next_character(std::string_view text, size_t& position) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const char32_t first = byte(position);
  if (first < 0x80) return ++position, first;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t code = first & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = code << 6 | (byte(position + i) & 0x3FU);
  position += length;
  return code;
}

/// How many bytes the character takes that begins with `first`, in valid UTF-8.
inline size_t character_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void append_character(std::string& text, char32_t code);

std::u32string to_characters(std::string_view text);
std::string to_utf8(std::u32string_view characters);

/// U+FFFD for each maximal part of a character that is none (Unicode 3.9, "substitution of maximal
/// subparts").
std::string with_valid_utf8(std::string_view text);
bool is_valid_utf8(std::string_view text);

/// The lower case of each character by itself.
std::string lowercase(std::string_view text);

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };
std::string normalized(std::string_view text, NormalForm form);

/// Ends of the grapheme clusters of `text`. Pairs of regional indicators and conjuncts of Indic scripts are
/// left apart: they are longer than what precompiled character maps look up.
std::vector<size_t> cluster_ends(std::string_view text);

}  // namespace detent
