#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "detent/tokenizers/byte_trie.h"
#include "detent/tokenizers/text_steps.h"

namespace detent {

/// A token that is found in texts as it is spelled, before the model sees them.
struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool special = false;
  bool single_word = false;  // not between letters
  bool left_strip = false;   // with the spaces before it
  bool right_strip = false;  // with the spaces after it
  bool normalized = false;   // looked for in the normalized text, in its normalized form
};

class AddedTokens {
 public:
  /// Throws Error, beginning with `name`, on an id that two of them have.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer, const std::string& name);

  struct Segment {
    NormalizedText text;
    std::optional<int64_t> id;  // of the token that it is
  };
  /// `text`, normalized, in segments that are tokens or left for the model to cut.
  std::vector<Segment> segments(std::string_view text, const Normalizer& normalizer) const;

  /// As it is decoded; nullptr where no added token has this id.
  const std::string* decoded(int64_t id) const;
  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(int64_t id) const;
  /// Whether a special token is spelled like this.
  bool is_special(std::string_view content) const;
  int64_t largest_id() const;  // -1: none

 private:
  void cut(const NormalizedText& text, const ByteTrie& trie, std::vector<Segment>& segments) const;

  std::vector<AddedToken> tokens_;
  std::vector<std::string> decoded_;
  std::unordered_map<int64_t, size_t> by_id_;
  std::unordered_map<std::string, size_t> by_content_;
  ByteTrie plain_;       // indices of tokens
  ByteTrie normalized_;  // likewise
};

}  // namespace detent
