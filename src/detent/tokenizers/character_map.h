#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace detent {

/// The "precompiled charsmap" of SentencePiece: a double array from texts to offsets of their replacements.
/// Every index is checked, since it comes from a file.
class CharacterMap {
 public:
  /// `bytes`: the size of the array in bytes (uint32), the array, texts that end in NUL.
  CharacterMap(std::string_view bytes, const std::string& name);

  struct Match {
    size_t length;
    std::string_view replacement;
  };
  std::optional<Match> shortest(std::string_view text) const;
  std::optional<Match> longest(std::string_view text) const;

  /// Grapheme clusters of less than 6 bytes by the shortest text that they begin with, others character by
  /// character: so Hugging Face's library reads tokenizer.json.
  std::string map_clusters(std::string_view text) const;
  /// The longest text at each position, as SentencePiece itself does.
  std::string map_longest(std::string_view text) const;

 private:
  template <class Visit>
  void each_prefix(std::string_view text, const Visit& visit) const;
  std::string_view replacement(uint32_t place) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace detent
