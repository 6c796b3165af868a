#include "detent/tokenizers/character_map.h"

#include <cstring>

#include "detent/core/error.h"
#include "detent/tokenizers/text_steps.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

// A unit of the double array (darts-clone): a label in the low byte, bit 8: it ends a text, bit 9: the offset
// is in units of 256, offset from bit 10 on; a leaf has bit 31 and its value below.
bool ends_text(uint32_t unit) { return (unit >> 8 & 1U) != 0; }
uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFFU; }
uint32_t label(uint32_t unit) { return unit & 0x800000FFU; }
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200U) >> 6); }

constexpr size_t kLongestCluster = 5;

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes, const std::string& name) {
  uint32_t size = 0;
  if (bytes.size() >= sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
  if (bytes.size() < sizeof(size) || size > bytes.size() - sizeof(size) || size % sizeof(uint32_t) != 0 ||
      size == 0)
    fail("{}: the precompiled character map of {} bytes is damaged", name, bytes.size());
  units_.resize(size / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes.data() + sizeof(size), size);
  replacements_ = bytes.substr(sizeof(size) + size);
  if (!is_valid_utf8(replacements_))
    fail("{}: the precompiled character map has texts that are not UTF-8", name);
}

template <class Visit>
void CharacterMap::each_prefix(std::string_view text, const Visit& visit) const {
  uint32_t node = offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label(units_[node]) != byte) return;
    const uint32_t unit = units_[node];
    node ^= offset(unit);
    if (node >= units_.size()) return;
    if (ends_text(unit) && !visit(i + 1, value(units_[node]))) return;
  }
}

std::string_view CharacterMap::replacement(uint32_t place) const {
  if (place >= replacements_.size()) return {};
  const size_t end = replacements_.find('\0', place);
  return std::string_view(replacements_).substr(place, end == std::string::npos ? end : end - place);
}

std::optional<CharacterMap::Match> CharacterMap::shortest(std::string_view text) const {
  std::optional<Match> found;
  each_prefix(text, [&](size_t length, uint32_t place) {
    found = Match{length, replacement(place)};
    return false;
  });
  return found;
}

std::optional<CharacterMap::Match> CharacterMap::longest(std::string_view text) const {
  std::optional<Match> found;
  each_prefix(text, [&](size_t length, uint32_t place) {
    found = Match{length, replacement(place)};
    return true;
  });
  return found;
}

std::string CharacterMap::map_clusters(std::string_view text) const {
  std::string result;
  size_t begin = 0;
  for (const size_t end : cluster_ends(text)) {
    const std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    if (cluster.size() <= kLongestCluster) {
      if (const auto match = shortest(cluster)) {
        result += match->replacement;
        check_growth(result.size(), text.size());
        continue;
      }
    }
    for (size_t i = 0; i < cluster.size();) {
      const std::string_view character = cluster.substr(i, character_length(cluster[i]));
      const auto match = shortest(character);
      result += match ? match->replacement : character;
      i += character.size();
      check_growth(result.size(), text.size());
    }
  }
  return result;
}

std::string CharacterMap::map_longest(std::string_view text) const {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const auto match = longest(text.substr(i));
    const size_t length = match ? match->length : character_length(text[i]);
    result += match ? match->replacement : text.substr(i, length);
    i += length;
    check_growth(result.size(), text.size());
  }
  return result;
}

}  // namespace detent
