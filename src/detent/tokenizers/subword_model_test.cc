#include "detent/tokenizers/subword_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

using Ids = std::vector<int64_t>;
using testing::HasSubstr;

/// Characters of one, two and three bytes.
const std::vector<std::string> kCharacters = {"a", "b", "é", "中"};

std::vector<std::string> random_characters(std::mt19937_64& random, size_t shortest, size_t longest) {
  std::vector<std::string> characters(shortest + random() % (longest - shortest + 1));
  for (std::string& character : characters) character = kCharacters[random() % kCharacters.size()];
  return characters;
}

std::string text_of(const std::vector<std::string>& characters, size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i < end; ++i) text += characters[i];
  return text;
}

std::string text_of(const std::vector<std::string>& characters) {
  return text_of(characters, 0, characters.size());
}

Ids tokenized(const SubwordModel& model, const std::string& word) {
  Ids ids = {-7};  // what is there stays
  model.tokenize(word, ids);
  EXPECT_EQ(ids.front(), -7);
  ids.erase(ids.begin());
  return ids;
}

TokenTable table_of(const std::vector<std::string>& tokens) {
  TokenTable table;
  for (size_t id = 0; id < tokens.size(); ++id) table.add(tokens[id], static_cast<int64_t>(id), "table");
  return table;
}

/// The pair of least rank, the leftmost of equal ones, until none is left.
Ids merged_one_by_one(Ids ids, const std::vector<BpeMerge>& merges) {
  for (;;) {
    const BpeMerge* best = nullptr;
    size_t place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (const BpeMerge& merge : merges) {
        if (merge.left != ids[i] || merge.right != ids[i + 1]) continue;
        if (best != nullptr && best->rank <= merge.rank) continue;
        best = &merge;
        place = i;
      }
    }
    if (best == nullptr) return ids;
    ids[place] = best->merged;
    ids.erase(ids.begin() + static_cast<int64_t>(place) + 1);
  }
}

TEST(Bpe, MergesAsOnePairAfterAnotherWould) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> tokens = kCharacters;
    std::vector<BpeMerge> merges;
    std::set<std::pair<int64_t, int64_t>> taken;
    for (int i = 0; i < 12; ++i) {
      const auto left = static_cast<int64_t>(random() % tokens.size());
      const auto right = static_cast<int64_t>(random() % tokens.size());
      std::string merged = tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)];
      if (!taken.emplace(left, right).second) continue;
      const auto known = std::ranges::find(tokens, merged);
      const int64_t id = known - tokens.begin();  // another way to a token that there is
      if (known == tokens.end()) tokens.push_back(std::move(merged));
      merges.push_back({left, right, id, static_cast<uint32_t>(merges.size())});
    }
    std::ranges::shuffle(merges, random);
    const auto model = make_bpe(table_of(tokens), merges, {});
    for (int i = 0; i < 20; ++i) {
      const std::vector<std::string> word = random_characters(random, 1, 30);
      Ids characters;
      for (const std::string& character : word)
        characters.push_back(std::ranges::find(kCharacters, character) - kCharacters.begin());
      const Ids wanted = merged_one_by_one(characters, merges);
      EXPECT_EQ(tokenized(*model, text_of(word)), wanted) << text_of(word);
      EXPECT_EQ(tokenized(*model, text_of(word)), wanted) << text_of(word) << ", from the cache";
    }
  }
}

TEST(Bpe, SpellsUnknownCharactersInBytes) {
  std::vector<std::string> tokens = {"?", "a", byte_token(0xC3), byte_token(0xA9)};
  BpeOptions options;
  options.unknown = "?";
  options.byte_fallback = true;
  EXPECT_EQ(tokenized(*make_bpe(table_of(tokens), {}, options), "aéa"), (Ids{1, 2, 3, 1}));
  // Not all bytes of "ü" (C3 BC) have tokens.
  EXPECT_EQ(tokenized(*make_bpe(table_of(tokens), {}, options), "üüa"), (Ids{0, 0, 1}));
  options.fuse_unknown = true;
  EXPECT_EQ(tokenized(*make_bpe(table_of(tokens), {}, options), "üüa"), (Ids{0, 1}));
  options.byte_fallback = false;
  EXPECT_EQ(tokenized(*make_bpe(table_of(tokens), {}, options), "éaé"), (Ids{0, 1, 0}));
  EXPECT_EQ(tokenized(*make_bpe(table_of(tokens), {}, {}), "éaé"), Ids{1}) << "nothing stands for them";
  options.unknown = "none";
  const auto model = make_bpe(table_of(tokens), {}, options);
  EXPECT_THAT(error_of([&] { tokenized(*model, "é"); }), HasSubstr("\"none\" is not in the vocabulary"));
}

TEST(Bpe, MarksTheInsideAndTheEndOfAWord) {
  const std::vector<std::string> tokens = {"a", "##b", "##b</w>", "a</w>", "a##b"};
  const std::vector<BpeMerge> merges = {{0, 1, 4, 0}};
  BpeOptions options;
  options.continuing_prefix = "##";
  options.end_of_word_suffix = "</w>";
  const auto model = make_bpe(table_of(tokens), merges, options);
  EXPECT_EQ(tokenized(*model, "abb"), (Ids{4, 2}));
  EXPECT_EQ(tokenized(*model, "a"), Ids{3});
}

TEST(Bpe, TakesWholeWordsWhereMergesAreIgnored) {
  const std::vector<std::string> tokens = {"a", "b", "ab"};
  EXPECT_EQ(tokenized(*make_bpe(table_of(tokens), {}, {}), "ab"), (Ids{0, 1}));
  BpeOptions options;
  options.ignore_merges = true;
  EXPECT_EQ(tokenized(*make_bpe(table_of(tokens), {}, options), "ab"), Ids{2});
  EXPECT_EQ(tokenized(*make_bpe(table_of(tokens), {}, options), "aab"), (Ids{0, 0, 1}));
}

UnigramOptions unigram_options(int64_t unknown, bool byte_fallback = false) {
  UnigramOptions options;
  options.unknown = unknown;
  options.byte_fallback = byte_fallback;
  return options;
}

/// Tries every way to cut a word; an unknown character is 10 less likely than the least likely piece.
class EveryCut {
 public:
  EveryCut(const std::vector<std::pair<std::string, double>>& pieces, int64_t unknown) : unknown_(unknown) {
    for (size_t id = 0; id < pieces.size(); ++id) {
      pieces_[pieces[id].first] = {static_cast<int64_t>(id), pieces[id].second};
      least_ = std::min(least_, pieces[id].second);
    }
  }

  Ids best(const std::vector<std::string>& word) {
    best_score_ = second_score_ = -std::numeric_limits<double>::infinity();
    cut(word, 0, 0, {});
    return best_;
  }
  /// The same pieces in another order: rounding decides.
  bool is_tie() const { return best_score_ - second_score_ < 1e-9; }

 private:
  void cut(const std::vector<std::string>& word, size_t begin, double score, const Ids& ids) {
    if (begin == word.size()) {
      if (score <= best_score_) {
        second_score_ = std::max(second_score_, score);
        return;
      }
      second_score_ = std::exchange(best_score_, score);
      best_ = ids;
      return;
    }
    for (size_t end = begin + 1; end <= word.size(); ++end) {
      const auto found = pieces_.find(text_of(word, begin, end));
      const bool is_known = found != pieces_.end();
      if (!is_known && end > begin + 1) continue;
      Ids longer = ids;
      // Unknown characters next to each other are one token.
      const bool goes_on = !is_known && !ids.empty() && ids.back() == unknown_;
      if (!goes_on) longer.push_back(is_known ? found->second.first : unknown_);
      cut(word, end, score + (is_known ? found->second.second : least_ - 10), longer);
    }
  }

  std::map<std::string, std::pair<int64_t, double>> pieces_;
  int64_t unknown_;
  double least_ = std::numeric_limits<double>::infinity();
  double best_score_ = 0;
  double second_score_ = 0;
  Ids best_;
};

TEST(Unigram, FindsTheMostLikelyCut) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> score(-9, -1);
  int compared = 0;
  for (int round = 0; round < 200; ++round) {
    std::map<std::string, double> drawn;
    for (int i = 0; i < 8; ++i) drawn[text_of(random_characters(random, 1, 3))] = score(random);
    std::vector<std::pair<std::string, double>> pieces(drawn.begin(), drawn.end());
    const auto unknown = static_cast<int64_t>(pieces.size());
    pieces.emplace_back("<unk>", 0);
    const auto model = make_unigram(pieces, unigram_options(unknown), "pieces");
    EveryCut every_cut(pieces, unknown);
    for (int i = 0; i < 20; ++i) {
      const std::vector<std::string> word = random_characters(random, 1, 9);
      const Ids wanted = every_cut.best(word);
      if (every_cut.is_tie()) continue;
      ++compared;
      EXPECT_EQ(tokenized(*model, text_of(word)), wanted) << text_of(word);
    }
  }
  EXPECT_GT(compared, 2000);
}

TEST(Unigram, SpellsUnknownCharactersInBytes) {
  std::vector<std::pair<std::string, double>> pieces = {
      {"<unk>", 0}, {"a", -1}, {byte_token(0xC3), -2}, {byte_token(0xA9), -2}};
  EXPECT_EQ(tokenized(*make_unigram(pieces, unigram_options(0, true), "p"), "aéü"), (Ids{1, 0}));
  EXPECT_EQ(tokenized(*make_unigram(pieces, unigram_options(0, true), "p"), "aéa"), (Ids{1, 2, 3, 1}));
  EXPECT_EQ(tokenized(*make_unigram(pieces, unigram_options(0), "p"), "éa"), (Ids{0, 1}));
  EXPECT_THAT(error_of([&] { tokenized(*make_unigram(pieces, {}, "p"), "é"); }),
              HasSubstr("no piece for \"é\""));
  EXPECT_THAT(error_of([&] { make_unigram(pieces, unigram_options(4), "p"); }), HasSubstr("p: unk_id 4"));
}

TEST(Unigram, NeverFindsHiddenPieces) {
  const std::vector<std::pair<std::string, double>> pieces = {{"<unk>", 0}, {"a", -5}, {"aa", -1}};
  UnigramOptions options = unigram_options(0);
  EXPECT_EQ(tokenized(*make_unigram(pieces, options, "p"), "aa"), Ids{2});
  options.never_found = {false, false, true};
  EXPECT_EQ(tokenized(*make_unigram(pieces, options, "p"), "aa"), (Ids{1, 1}));
}

/// The longest token at each place; inside a word with its prefix.
Ids longest_pieces(const std::vector<std::string>& tokens, const std::vector<std::string>& word) {
  Ids ids;
  for (size_t begin = 0; begin < word.size();) {
    size_t end = word.size();
    int64_t id = -1;
    for (; end > begin && id < 0; --end) {
      const auto found = std::ranges::find(tokens, (begin == 0 ? "" : "##") + text_of(word, begin, end));
      if (found != tokens.end()) id = found - tokens.begin();
    }
    if (id < 0) return {0};
    ids.push_back(id);
    begin = end + 1;
  }
  return ids;
}

TEST(WordPiece, TakesTheLongestPieces) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> tokens = {"[UNK]"};
    for (int i = 0; i < 20; ++i) {
      std::string token = (random() % 2 == 0 ? "" : "##") + text_of(random_characters(random, 1, 3));
      if (std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(std::move(token));
    }
    const auto model = make_word_piece(table_of(tokens), {}, "pieces");
    for (int i = 0; i < 20; ++i) {
      const std::vector<std::string> word = random_characters(random, 1, 8);
      EXPECT_EQ(tokenized(*model, text_of(word)), longest_pieces(tokens, word)) << text_of(word);
    }
  }
}

TEST(WordPiece, CountsCharactersOfLongWords) {
  const std::vector<std::string> tokens = {"[UNK]", "中", "##中"};
  const auto model = make_word_piece(
      table_of(tokens), {.unknown = "[UNK]", .continuing_prefix = "##", .longest_word = 3}, "pieces");
  EXPECT_EQ(tokenized(*model, "中中中"), (Ids{1, 2, 2}));
  EXPECT_EQ(tokenized(*model, "中中中中"), Ids{0});
  EXPECT_THAT(error_of([&] { make_word_piece(table_of({"a"}), {}, "pieces"); }),
              HasSubstr("pieces: the unknown token \"[UNK]\""));
}

TEST(WordLevel, KnowsWholeWordsOnly) {
  const auto model = make_word_level(table_of({"?", "ab"}), "?", "words");
  EXPECT_EQ(tokenized(*model, "ab"), Ids{1});
  EXPECT_EQ(tokenized(*model, "a"), Ids{0});
  EXPECT_EQ(model->unknown(), 0);
}

TEST(TokenTable, HoldsIdsWithGaps) {
  TokenTable table;
  table.add("a", 5, "t");
  table.add("", 2, "t");
  EXPECT_EQ(table.size(), 6);
  EXPECT_EQ(table.count(), 2U);
  EXPECT_EQ(table.find("a"), 5);
  EXPECT_EQ(table.find(""), 2);
  EXPECT_TRUE(table.has(2));
  EXPECT_FALSE(table.has(3));
  EXPECT_FALSE(table.has(-1));
  EXPECT_FALSE(table.has(6));
  EXPECT_EQ(table.token(9), "");
  EXPECT_THAT(error_of([&] { table.add("b", 5, "t"); }), HasSubstr("id 5"));
  EXPECT_THAT(error_of([&] { table.add("b", -1, "t"); }), HasSubstr("-1"));
  EXPECT_THAT(error_of([&] { table.add("b", int64_t{1} << 40, "t"); }), HasSubstr("t"));
}

}  // namespace
}  // namespace detent
