#include "detent/tokenizers/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <span>
#include <unordered_map>

namespace detent {
namespace {

struct CodeRange {
  char32_t first;
  char32_t last;
};
struct CategoryRange {
  char32_t first;
  char32_t last;
  Category category;
};
struct ClassRange {
  char32_t first;
  char32_t last;
  uint8_t combining_class;
};
struct Composition {
  char32_t first;
  char32_t second;
  char32_t composed;
};

using enum Category;
#include "detent/tokenizers/unicode_tables.inc"

constexpr char32_t kCodes = 0x110000;
constexpr size_t kBlock = 256;

/// Blocks that are equal are stored once.
template <class T>
class CodeTable {
 public:
  explicit CodeTable(const std::vector<T>& values) {
    for (size_t begin = 0; begin < values.size(); begin += kBlock) {
      const auto block = values.begin() + static_cast<std::ptrdiff_t>(begin);
      size_t place = 0;
      while (place < blocks_.size() &&
             !std::equal(block, block + kBlock, blocks_.begin() + static_cast<std::ptrdiff_t>(place)))
        place += kBlock;
      if (place == blocks_.size()) blocks_.insert(blocks_.end(), block, block + kBlock);
      places_[begin / kBlock] = static_cast<uint32_t>(place);
    }
  }
  const T& operator[](char32_t code) const { return blocks_[places_[code / kBlock] + code % kBlock]; }

 private:
  std::array<uint32_t, kCodes / kBlock> places_{};
  std::vector<T> blocks_;
};

void set_flags(std::vector<CharacterProperties>& all, std::span<const CodeRange> ranges, CharacterFlag flag) {
  for (const CodeRange& range : ranges)
    for (char32_t code = range.first; code <= range.last; ++code)
      all[code].flags = static_cast<uint8_t>(all[code].flags | flag);
}

template <class T>
void set_member(std::vector<CharacterProperties>& all, std::span<const CodeRange> ranges,
                T CharacterProperties::*member, T value) {
  for (const CodeRange& range : ranges)
    for (char32_t code = range.first; code <= range.last; ++code) all[code].*member = value;
}

void set_clusters(std::vector<CharacterProperties>& all) {
  const auto set = [&](std::span<const CodeRange> ranges, ClusterPart part) {
    set_member(all, ranges, &CharacterProperties::cluster_part, part);
  };
  set(kPictographic, ClusterPart::kPictographic);
  set(kGraphemeControl, ClusterPart::kControl);
  set(kGraphemeExtend, ClusterPart::kExtend);
  set(kGraphemeSpacingMark, ClusterPart::kSpacingMark);
  set(kGraphemePrepend, ClusterPart::kPrepend);
  set(kGraphemeL, ClusterPart::kL);
  set(kGraphemeV, ClusterPart::kV);
  set(kGraphemeT, ClusterPart::kT);
  set(kGraphemeLV, ClusterPart::kLV);
  set(kGraphemeLVT, ClusterPart::kLVT);
}

void set_scripts(std::vector<CharacterProperties>& all) {
  const auto set = [&](std::span<const CodeRange> ranges, Script script) {
    set_member(all, ranges, &CharacterProperties::script, script);
  };
  set(kScriptHan, Script::kHan);
  set(kScriptHiragana, Script::kHiragana);
  set(kScriptKatakana, Script::kKatakana);
  set(kScriptHangul, Script::kHangul);
  set(kScriptLatin, Script::kLatin);
  set(kScriptCyrillic, Script::kCyrillic);
  set(kScriptGreek, Script::kGreek);
  set(kScriptThai, Script::kThai);
  set(kScriptArabic, Script::kArabic);
  set(kScriptHebrew, Script::kHebrew);
  set(kScriptDevanagari, Script::kDevanagari);
}

std::vector<CharacterProperties> all_properties() {
  std::vector<CharacterProperties> all(kCodes);
  for (const CategoryRange& range : kCategories)
    for (char32_t code = range.first; code <= range.last; ++code) all[code].category = range.category;
  set_flags(all, kSpace, kIsSpace);
  set_flags(all, kPatternWord, kIsPatternWord);
  set_flags(all, kWord, kIsWord);
  set_flags(all, kNumeric, kIsNumeric);
  set_flags(all, kPunctuation, kIsPunctuation);
  set_flags(all, kControl, kIsControl);
  set_flags(all, kNonspacingMark, kIsNonspacingMark);
  set_flags(all, kCombiningMark, kIsCombiningMark);
  set_clusters(all);
  set_scripts(all);
  return all;
}

/// From a code to its image, as lists of code, image, 0 have them.
using Images = std::unordered_map<char32_t, std::u32string>;

void add_images(Images& images, std::span<const char32_t> list) {
  for (size_t i = 0; i < list.size();) {
    const char32_t code = list[i++];
    std::u32string& image = images[code];
    image.clear();
    while (list[i] != 0) image += list[i++];
    ++i;
  }
}

struct NormalForms {
  Images canonical;
  Images compatible;
  std::unordered_map<uint64_t, char32_t> compositions;
  std::unordered_map<char32_t, uint8_t> classes;

  NormalForms() {
    add_images(canonical, kCanonical);
    compatible = canonical;
    add_images(compatible, kCompatible);
    for (const Composition& pair : kCompositions)
      compositions[uint64_t{pair.first} << 32 | pair.second] = pair.composed;
    for (const ClassRange& range : kCombiningClasses)
      for (char32_t code = range.first; code <= range.last; ++code) classes[code] = range.combining_class;
  }
};

const NormalForms& normal_forms() {
  static const NormalForms forms;
  return forms;
}

uint8_t combining_class(char32_t code) {
  if (code < 0x300) return 0;
  const auto found = normal_forms().classes.find(code);
  return found == normal_forms().classes.end() ? 0 : found->second;
}

// Hangul syllables compose by arithmetic (Unicode 3.12).
constexpr char32_t kSyllables = 0xAC00;
constexpr char32_t kLeading = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTrailing = 0x11A7;
constexpr char32_t kLeadingCount = 19;
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTrailingCount = 28;
constexpr char32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

void decompose(char32_t code, const Images& images, std::u32string& result) {
  if (code >= kSyllables && code < kSyllables + kSyllableCount) {
    const char32_t index = code - kSyllables;
    result += kLeading + index / (kVowelCount * kTrailingCount);
    result += kVowels + index % (kVowelCount * kTrailingCount) / kTrailingCount;
    if (index % kTrailingCount != 0) result += kTrailing + index % kTrailingCount;
    return;
  }
  const auto found = images.find(code);
  if (found == images.end()) {
    result += code;
  } else {
    result += found->second;
  }
}

/// Marks of different classes after a character stand in the order of their classes.
void order_marks(std::u32string& text) {
  for (size_t i = 0; i < text.size();) {
    if (combining_class(text[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(i),
                     text.begin() + static_cast<std::ptrdiff_t>(end),
                     [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
}

/// 0 where the two do not compose.
char32_t composed(char32_t first, char32_t second) {
  if (first >= kLeading && first < kLeading + kLeadingCount && second >= kVowels &&
      second < kVowels + kVowelCount)
    return kSyllables + ((first - kLeading) * kVowelCount + (second - kVowels)) * kTrailingCount;
  if (first >= kSyllables && first < kSyllables + kSyllableCount &&
      (first - kSyllables) % kTrailingCount == 0 && second > kTrailing && second < kTrailing + kTrailingCount)
    return first + (second - kTrailing);
  const auto found = normal_forms().compositions.find(uint64_t{first} << 32 | second);
  return found == normal_forms().compositions.end() ? 0 : found->second;
}

std::u32string compose(const std::u32string& text) {
  std::u32string result;
  size_t starter = std::u32string::npos;
  uint8_t last_class = 0;
  for (const char32_t code : text) {
    const uint8_t current = combining_class(code);
    const bool blocked =
        starter != std::u32string::npos && starter + 1 != result.size() && last_class >= current;
    if (starter != std::u32string::npos && !blocked) {
      if (const char32_t whole = composed(result[starter], code); whole != 0) {
        result[starter] = whole;
        continue;
      }
    }
    if (current == 0) starter = result.size();
    last_class = current;
    result += code;
  }
  return result;
}

/// The length of the character at `position`, or 0 and how many bytes are the maximal part of one.
struct CharacterBytes {
  size_t length = 0;
  size_t invalid = 0;
};

CharacterBytes character_bytes(std::string_view text, size_t position) {
  const auto first = static_cast<unsigned char>(text[position]);
  if (first < 0x80) return {1, 0};
  if (first < 0xC2 || first > 0xF4) return {0, 1};
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (position + i == text.size()) return {0, i};
    const auto byte = static_cast<unsigned char>(text[position + i]);
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (i == 1 && first == 0xE0) low = 0xA0;
    if (i == 1 && first == 0xED) high = 0x9F;
    if (i == 1 && first == 0xF0) low = 0x90;
    if (i == 1 && first == 0xF4) high = 0x8F;
    if (byte < low || byte > high) return {0, i};
  }
  return {length, 0};
}

constexpr char32_t kJoiner = 0x200D;

/// Whether a cluster goes on from `before` to `after` (UAX 29, GB3 to GB9b). `pictograph` is whether what
/// stands before a joiner is one.
bool joins(char32_t before, char32_t after, bool pictograph) {
  using enum ClusterPart;
  if (before == '\r' && after == '\n') return true;
  const ClusterPart left = properties_of(before).cluster_part;
  const ClusterPart right = properties_of(after).cluster_part;
  const auto is_control = [](char32_t code, ClusterPart part) {
    return code == '\r' || code == '\n' || part == kControl;
  };
  if (is_control(before, left) || is_control(after, right)) return false;
  if (right == kExtend || after == kJoiner || right == kSpacingMark || left == kPrepend) return true;
  if (left == kL && (right == kL || right == kV || right == kLV || right == kLVT)) return true;
  if ((left == kLV || left == kV) && (right == kV || right == kT)) return true;
  if ((left == kLVT || left == kT) && right == kT) return true;
  return before == kJoiner && right == kPictographic && pictograph;
}

}  // namespace

const CharacterProperties& properties_of(char32_t code) {
  static const CodeTable<CharacterProperties> table(all_properties());
  static const CharacterProperties unassigned;
  return code < kCodes ? table[code] : unassigned;
}

void append_character(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

std::u32string to_characters(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) result += next_character(text, i);
  return result;
}

std::string to_utf8(std::u32string_view characters) {
  std::string result;
  result.reserve(characters.size());
  for (const char32_t code : characters) append_character(result, code);
  return result;
}

bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const CharacterBytes bytes = character_bytes(text, i);
    if (bytes.length == 0) return false;
    i += bytes.length;
  }
  return true;
}

std::string with_valid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CharacterBytes bytes = character_bytes(text, i);
    if (bytes.length > 0) {
      result += text.substr(i, bytes.length);
    } else {
      result += "\xEF\xBF\xBD";
    }
    i += bytes.length + bytes.invalid;
  }
  return result;
}

std::string lowercase(std::string_view text) {
  static const Images images = [] {
    Images all;
    add_images(all, kLowercase);
    return all;
  }();
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const char32_t code = next_character(text, i);
    if (code < 0x80) {
      result += static_cast<char>(code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code);
      continue;
    }
    const auto found = images.find(code);
    if (found == images.end()) {
      append_character(result, code);
    } else {
      result += to_utf8(found->second);
    }
  }
  return result;
}

std::string normalized(std::string_view text, NormalForm form) {
  if (std::ranges::all_of(text, [](char byte) { return static_cast<unsigned char>(byte) < 0x80; }))
    return std::string(text);
  const bool is_compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const Images& images = is_compatible ? normal_forms().compatible : normal_forms().canonical;
  std::u32string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) decompose(next_character(text, i), images, result);
  order_marks(result);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) result = compose(result);
  return to_utf8(result);
}

std::vector<size_t> cluster_ends(std::string_view text) {
  std::vector<size_t> ends;
  char32_t before = 0;
  bool pictograph = false;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t code = next_character(text, i);
    if (begin > 0 && !joins(before, code, pictograph)) ends.push_back(begin);
    const ClusterPart part = properties_of(code).cluster_part;
    if (part != ClusterPart::kExtend && code != kJoiner) pictograph = part == ClusterPart::kPictographic;
    before = code;
  }
  if (!text.empty()) ends.push_back(text.size());
  return ends;
}

}  // namespace detent
