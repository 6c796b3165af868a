#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "detent/core/error.h"
#include "detent/tokenizers/byte_trie.h"
#include "detent/tokenizers/subword_model.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

/// How much less likely than the least likely piece an unknown character is.
constexpr double kUnknownPenalty = 10;

/// The most likely way to an end of a piece.
struct Step {
  double score = 0;
  int64_t piece = 0;
  size_t begin = SIZE_MAX;  // none yet
};

class Unigram : public SubwordModel {
 public:
  Unigram(std::vector<std::pair<std::string, double>> pieces, UnigramOptions options, const std::string& name)
      : unknown_(options.unknown), options_(std::move(options)) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < pieces.size(); ++i) {
      scores_.push_back(pieces[i].second);
      if (!is_hidden(static_cast<int64_t>(i))) {
        least = std::min(least, pieces[i].second);
        trie_.insert(pieces[i].first, static_cast<int64_t>(i));
      }
      tokens_.add(std::move(pieces[i].first), static_cast<int64_t>(i), name);
    }
    if (unknown_ && (*unknown_ < 0 || *unknown_ >= tokens_.size()))
      fail("{}: unk_id {} is not among the {} pieces", name, *unknown_, tokens_.size());
    unknown_score_ = rounded(least - kUnknownPenalty);
    for (size_t byte = 0; byte < bytes_.size(); ++byte)
      bytes_[byte] = tokens_.find(byte_token(static_cast<unsigned char>(byte))).value_or(-1);
  }

  const TokenTable& tokens() const override { return tokens_; }
  std::optional<int64_t> unknown() const override { return unknown_; }

  void tokenize(std::string_view word, std::vector<int64_t>& ids) const override {
    const std::vector<Step> steps = best_steps(word);
    const size_t first = ids.size();
    // From the end; neighbours that are unknown are one.
    for (size_t end = word.size(); end > 0;) {
      size_t begin = steps[end].begin;
      const bool is_unknown = steps[end].piece == unknown_;
      while (is_unknown && begin > 0 && steps[begin].piece == unknown_) begin = steps[begin].begin;
      add_reversed(word.substr(begin, end - begin), ids);
      end = begin;
    }
    std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
  }

 private:
  bool is_hidden(int64_t id) const {
    const auto place = static_cast<size_t>(id);
    return place < options_.never_found.size() && options_.never_found[place];
  }
  double rounded(double score) const {
    return options_.float_sums ? static_cast<double>(static_cast<float>(score)) : score;
  }

  std::vector<Step> best_steps(std::string_view word) const {
    std::vector<Step> steps(word.size() + 1);
    for (size_t begin = 0; begin < word.size();) {
      const size_t length = character_length(word[begin]);
      const double till_here = steps[begin].score;
      const auto offer = [&](size_t end, double score, int64_t piece) {
        Step& step = steps[end];
        const double sum = rounded(till_here + score);
        if (step.begin == SIZE_MAX || sum > step.score) step = {sum, piece, begin};
      };
      bool has_character = false;
      trie_.each_prefix(word, begin, [&](size_t size, int64_t piece) {
        offer(begin + size, scores_[static_cast<size_t>(piece)], piece);
        has_character = has_character || size == length;
      });
      if (!has_character) {
        if (!unknown_)
          fail("the tokenizer has no piece for \"{}\", and none for what is unknown",
               word.substr(begin, length));
        offer(begin + length, unknown_score_, *unknown_);
      }
      begin += length;
    }
    return steps;
  }

  void add_reversed(std::string_view text, std::vector<int64_t>& ids) const {
    if (const auto id = tokens_.find(text); id && !is_hidden(*id)) return ids.push_back(*id);
    const bool in_bytes = options_.byte_fallback && std::ranges::all_of(text, [&](char byte) {
                            return bytes_[static_cast<unsigned char>(byte)] >= 0;
                          });
    if (!in_bytes) {
      if (!unknown_) fail("the tokenizer has no piece for \"{}\", and none for what is unknown", text);
      return ids.push_back(*unknown_);
    }
    for (size_t i = text.size(); i > 0; --i) ids.push_back(bytes_[static_cast<unsigned char>(text[i - 1])]);
  }

  TokenTable tokens_;
  ByteTrie trie_;
  std::vector<double> scores_;
  std::optional<int64_t> unknown_;
  double unknown_score_ = 0;
  UnigramOptions options_;
  std::array<int64_t, 256> bytes_{};
};

}  // namespace

std::unique_ptr<SubwordModel> make_unigram(std::vector<std::pair<std::string, double>> pieces,
                                           UnigramOptions options, const std::string& name) {
  return std::make_unique<Unigram>(std::move(pieces), std::move(options), name);
}

}  // namespace detent
