#include "detent/tokenizers/added_tokens.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

/// The character that ends at `end`.
char32_t character_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while ((static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80) --begin;
  return next_character(text, begin);
}

char32_t character_at(std::string_view text, size_t begin) { return next_character(text, begin); }

bool is_whole_word(std::string_view text, size_t begin, size_t end) {
  const bool open_before = begin == 0 || !properties_of(character_before(text, begin)).has(kIsWord);
  const bool open_after = end == text.size() || !properties_of(character_at(text, end)).has(kIsWord);
  return open_before && open_after;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer,
                         const std::string& name)
    : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    NormalizedText form{token.content};
    if (token.normalized && normalizer) normalizer(form);
    decoded_.push_back(form.text);
    (token.normalized ? normalized_ : plain_).insert(form.text, static_cast<int64_t>(i));
    const auto [place, is_new] = by_id_.emplace(token.id, i);
    if (!is_new)
      fail("{}: added tokens \"{}\" and \"{}\" both have id {}", name, tokens_[place->second].content,
           token.content, token.id);
    by_content_[token.content] = i;
  }
}

void AddedTokens::cut(const NormalizedText& text, const ByteTrie& trie,
                      std::vector<Segment>& segments) const {
  const std::string_view all = text.text;
  size_t last = 0;
  const auto add_between = [&](size_t end) {
    if (last < end)
      segments.push_back(
          {{std::string(all.substr(last, end - last)), text.at_start && last == 0}, std::nullopt});
  };
  for (size_t i = 0; !trie.empty() && i < all.size();) {
    const auto match = trie.longest(all, i);
    if (!match) {
      ++i;
      continue;
    }
    size_t begin = i;
    size_t end = i + match->length;
    i = end;
    const AddedToken& token = tokens_[static_cast<size_t>(match->value)];
    if (token.single_word && !is_whole_word(all, begin, end)) continue;
    // The token before may have taken all of it, as white space after itself.
    if (token.left_strip) begin = std::max(begin, last);
    while (token.left_strip && begin > last && properties_of(character_before(all, begin)).has(kIsSpace)) {
      do --begin;
      while ((static_cast<unsigned char>(all[begin]) & 0xC0U) == 0x80);
    }
    while (token.right_strip && end < all.size() && properties_of(character_at(all, end)).has(kIsSpace))
      end += character_length(all[end]);
    add_between(begin);
    if (begin < end) segments.push_back({{}, token.id});
    last = end;
  }
  add_between(all.size());
}

std::vector<AddedTokens::Segment> AddedTokens::segments(std::string_view text,
                                                        const Normalizer& normalizer) const {
  std::vector<Segment> plain;
  cut({std::string(text)}, plain_, plain);
  std::vector<Segment> result;
  for (Segment& segment : plain) {
    if (segment.id) {
      result.push_back(std::move(segment));
      continue;
    }
    if (normalizer) normalizer(segment.text);
    cut(segment.text, normalized_, result);
  }
  return result;
}

const std::string* AddedTokens::decoded(int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &decoded_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

bool AddedTokens::is_special(std::string_view content) const {
  const AddedToken* token = find(content);
  return token != nullptr && token->special;
}

int64_t AddedTokens::largest_id() const {
  int64_t largest = -1;
  for (const AddedToken& token : tokens_) largest = std::max(largest, token.id);
  return largest;
}

}  // namespace detent
