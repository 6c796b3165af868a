#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace detent {

/// Tokens by id and by text.
class TokenTable {
 public:
  /// Throws Error, beginning with `name`, on an id that is taken or beyond what vocabularies have.
  void add(std::string token, int64_t id, const std::string& name);
  std::optional<int64_t> find(std::string_view token) const;
  /// "" where there is none.
  const std::string& token(int64_t id) const;
  bool has(int64_t id) const;
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  size_t count() const { return ids_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::vector<std::string> tokens_;
  std::vector<bool> taken_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
};

/// Cuts a word into tokens. Immutable but for caches, which are locked.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  /// Appends the ids of `word`, which is valid UTF-8 and not empty.
  virtual void tokenize(std::string_view word, std::vector<int64_t>& ids) const = 0;
  virtual const TokenTable& tokens() const = 0;
  virtual std::optional<int64_t> unknown() const = 0;
};

struct BpeOptions {
  std::optional<std::string> unknown;
  std::string continuing_prefix;
  std::string end_of_word_suffix;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a word that is a token is that token
};

struct BpeMerge {
  int64_t left;
  int64_t right;
  int64_t merged;
  uint32_t rank;  // the smallest merges first; equal ones from left to right
};

std::unique_ptr<SubwordModel> make_bpe(TokenTable tokens, const std::vector<BpeMerge>& merges,
                                       BpeOptions options);

struct UnigramOptions {
  std::optional<int64_t> unknown;
  bool byte_fallback = false;
  bool float_sums = false;        // SentencePiece adds in float, Hugging Face's library in double
  std::vector<bool> never_found;  // by id: what no text is cut into; empty: all may be
};

/// Pieces and their scores (logarithms of probabilities), in the order of their ids.
std::unique_ptr<SubwordModel> make_unigram(std::vector<std::pair<std::string, double>> pieces,
                                           UnigramOptions options, const std::string& name);

struct WordPieceOptions {
  std::string unknown = "[UNK]";
  std::string continuing_prefix = "##";
  int64_t longest_word = 100;  // in characters; longer ones are unknown
};

std::unique_ptr<SubwordModel> make_word_piece(TokenTable tokens, const WordPieceOptions& options,
                                              const std::string& name);

/// Words as they are.
std::unique_ptr<SubwordModel> make_word_level(TokenTable tokens, const std::string& unknown,
                                              const std::string& name);

/// "<0x0A>"
std::string byte_token(unsigned char byte);

}  // namespace detent
