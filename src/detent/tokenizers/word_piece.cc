#include <algorithm>
#include <memory>

#include "detent/core/error.h"
#include "detent/tokenizers/byte_trie.h"
#include "detent/tokenizers/subword_model.h"

namespace detent {
namespace {

int64_t required(const TokenTable& tokens, const std::string& unknown, const std::string& name) {
  const auto id = tokens.find(unknown);
  if (!id) fail("{}: the unknown token \"{}\" is not in the vocabulary", name, unknown);
  return *id;
}

class WordPiece : public SubwordModel {
 public:
  WordPiece(TokenTable tokens, const WordPieceOptions& options, const std::string& name)
      : tokens_(std::move(tokens)),
        longest_word_(options.longest_word),
        unknown_(required(tokens_, options.unknown, name)) {
    for (int64_t id = 0; id < tokens_.size(); ++id) {
      const std::string& token = tokens_.token(id);
      beginnings_.insert(token, id);
      if (token.starts_with(options.continuing_prefix))
        continuations_.insert(std::string_view(token).substr(options.continuing_prefix.size()), id);
    }
  }

  const TokenTable& tokens() const override { return tokens_; }
  std::optional<int64_t> unknown() const override { return unknown_; }

  void tokenize(std::string_view word, std::vector<int64_t>& ids) const override {
    const auto characters = std::ranges::count_if(
        word, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80; });
    if (characters > longest_word_) return ids.push_back(unknown_);
    const size_t first = ids.size();
    for (size_t begin = 0; begin < word.size();) {
      const auto match = (begin == 0 ? beginnings_ : continuations_).longest(word, begin);
      if (!match) {
        ids.resize(first);
        return ids.push_back(unknown_);
      }
      ids.push_back(match->value);
      begin += match->length;
    }
  }

 private:
  TokenTable tokens_;
  int64_t longest_word_;
  int64_t unknown_;
  ByteTrie beginnings_;
  ByteTrie continuations_;
};

class WordLevel : public SubwordModel {
 public:
  WordLevel(TokenTable tokens, const std::string& unknown, const std::string& name)
      : tokens_(std::move(tokens)), unknown_(required(tokens_, unknown, name)) {}

  const TokenTable& tokens() const override { return tokens_; }
  std::optional<int64_t> unknown() const override { return unknown_; }
  void tokenize(std::string_view word, std::vector<int64_t>& ids) const override {
    ids.push_back(tokens_.find(word).value_or(unknown_));
  }

 private:
  TokenTable tokens_;
  int64_t unknown_;
};

}  // namespace

std::unique_ptr<SubwordModel> make_word_piece(TokenTable tokens, const WordPieceOptions& options,
                                              const std::string& name) {
  return std::make_unique<WordPiece>(std::move(tokens), options, name);
}

std::unique_ptr<SubwordModel> make_word_level(TokenTable tokens, const std::string& unknown,
                                              const std::string& name) {
  return std::make_unique<WordLevel>(std::move(tokens), unknown, name);
}

}  // namespace detent
