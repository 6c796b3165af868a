#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <queue>

#include "detent/core/error.h"
#include "detent/tokenizers/subword_model.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

constexpr size_t kNone = SIZE_MAX;

struct MergeResult {
  uint32_t rank;
  int32_t merged;
};

/// From pairs of ids to what they merge to: an open hash table, half full at most.
class MergeTable {
 public:
  explicit MergeTable(const std::vector<BpeMerge>& merges) {
    const size_t places = std::bit_ceil(std::max<size_t>(2 * merges.size(), 2));
    keys_.assign(places, kEmpty);
    results_.resize(places);
    for (const BpeMerge& merge : merges) {
      const size_t place = find_place(key(merge.left, merge.right));
      keys_[place] = key(merge.left, merge.right);
      results_[place] = {merge.rank, static_cast<int32_t>(merge.merged)};
    }
  }

  /// nullptr where the two do not merge.
  const MergeResult* find(int64_t left, int64_t right) const {
    const size_t place = find_place(key(left, right));
    return keys_[place] == kEmpty ? nullptr : &results_[place];
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;
  static uint64_t key(int64_t left, int64_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
  }
  size_t find_place(uint64_t key) const {
    size_t place = static_cast<size_t>((key ^ key >> 29) * 0x9E3779B97F4A7C15U >> 24) & (keys_.size() - 1);
    while (keys_[place] != key && keys_[place] != kEmpty) place = (place + 1) & (keys_.size() - 1);
    return place;
  }

  std::vector<uint64_t> keys_;
  std::vector<MergeResult> results_;
};

struct Symbol {
  int64_t id;
  size_t before;
  size_t after;
  bool merged_away = false;
};

struct Candidate {
  uint32_t rank;
  int32_t merged;
  size_t position;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

/// The tokens of words that were seen, some thousands of them: a word replaces another in its place.
class WordCache {
 public:
  bool find(std::string_view word, std::vector<int64_t>& ids) {
    const size_t hash = std::hash<std::string_view>{}(word);
    const std::lock_guard lock(mutexes_[hash % kMutexes]);
    const Entry& entry = entries_[hash % kEntries];
    if (entry.word != word) return false;
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.end());
    return true;
  }
  void keep(std::string_view word, const int64_t* begin, const int64_t* end) {
    const size_t hash = std::hash<std::string_view>{}(word);
    const std::lock_guard lock(mutexes_[hash % kMutexes]);
    Entry& entry = entries_[hash % kEntries];
    entry.word = word;
    entry.ids.assign(begin, end);
  }

  static constexpr size_t kLongestWord = 48;

 private:
  static constexpr size_t kEntries = size_t{1} << 14;
  static constexpr size_t kMutexes = 64;  // divides kEntries, so that one mutex guards each entry
  struct Entry {
    std::string word;
    std::vector<int64_t> ids;
  };
  std::array<std::mutex, kMutexes> mutexes_;
  std::vector<Entry> entries_{kEntries};
};

class Bpe : public SubwordModel {
 public:
  Bpe(TokenTable tokens, const std::vector<BpeMerge>& merges, BpeOptions options)
      : tokens_(std::move(tokens)), merges_(merges), options_(std::move(options)) {
    if (options_.unknown) unknown_ = tokens_.find(*options_.unknown);
    if (!options_.byte_fallback) return;
    for (size_t byte = 0; byte < bytes_.size(); ++byte)
      bytes_[byte] = tokens_.find(byte_token(static_cast<unsigned char>(byte))).value_or(-1);
  }

  const TokenTable& tokens() const override { return tokens_; }
  std::optional<int64_t> unknown() const override { return unknown_; }

  void tokenize(std::string_view word, std::vector<int64_t>& ids) const override {
    if (options_.ignore_merges) {
      if (const auto id = tokens_.find(word)) return ids.push_back(*id);
    }
    const bool may_keep = word.size() <= WordCache::kLongestWord;
    if (may_keep && cache_.find(word, ids)) return;
    const size_t begin = ids.size();
    std::vector<Symbol> symbols = first_symbols(word);
    merge(symbols);
    for (const Symbol& symbol : symbols)
      if (!symbol.merged_away) ids.push_back(symbol.id);
    if (may_keep) cache_.keep(word, ids.data() + begin, ids.data() + ids.size());
  }

 private:
  static void add(std::vector<Symbol>& symbols, int64_t id) {
    if (!symbols.empty()) symbols.back().after = symbols.size();
    symbols.push_back({id, symbols.empty() ? kNone : symbols.size() - 1, kNone});
  }

  bool add_bytes(std::string_view text, std::vector<Symbol>& symbols) const {
    if (!options_.byte_fallback) return false;
    for (const char byte : text)
      if (bytes_[static_cast<unsigned char>(byte)] < 0) return false;
    for (const char byte : text) add(symbols, bytes_[static_cast<unsigned char>(byte)]);
    return true;
  }

  /// A symbol a character, in bytes or unknown where the vocabulary lacks it. An unknown one is added only
  /// when a known one follows, after bytes that stand between: so the files' own library does it.
  std::vector<Symbol> first_symbols(std::string_view word) const {
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    bool pending = false;
    std::string affixed;
    const bool has_affixes = !options_.continuing_prefix.empty() || !options_.end_of_word_suffix.empty();
    for (size_t i = 0; i < word.size();) {
      const size_t begin = i;
      i += character_length(word[i]);
      std::string_view text = word.substr(begin, i - begin);
      if (has_affixes) {
        affixed = begin > 0 ? options_.continuing_prefix : "";
        affixed += text;
        if (i == word.size()) affixed += options_.end_of_word_suffix;
        text = affixed;
      }
      if (const auto id = tokens_.find(text)) {
        if (pending) add(symbols, *unknown_);
        pending = false;
        add(symbols, *id);
      } else if (!add_bytes(text, symbols) && options_.unknown) {
        if (!unknown_)
          fail("the unknown token \"{}\" is not in the vocabulary, nor is \"{}\"", *options_.unknown, text);
        if (pending && !options_.fuse_unknown) add(symbols, *unknown_);
        pending = true;
      }
    }
    if (pending) add(symbols, *unknown_);
    return symbols;
  }

  void merge(std::vector<Symbol>& symbols) const {
    std::vector<Candidate> found;
    const auto candidate = [&](size_t left) -> std::optional<Candidate> {
      const MergeResult* merge = merges_.find(symbols[left].id, symbols[symbols[left].after].id);
      if (merge == nullptr) return std::nullopt;
      return Candidate{merge->rank, merge->merged, left};
    };
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      if (const auto one = candidate(i)) found.push_back(*one);
    if (found.empty()) return;
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>{},
                                                                                 std::move(found));
    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      Symbol& left = symbols[top.position];
      if (left.merged_away || left.after == kNone) continue;
      Symbol& right = symbols[left.after];
      const MergeResult* current = merges_.find(left.id, right.id);
      if (current == nullptr || current->merged != top.merged) continue;  // one of the two has changed since
      left.id = top.merged;
      right.merged_away = true;
      left.after = right.after;
      if (left.after != kNone) symbols[left.after].before = top.position;
      if (left.before != kNone) {
        if (const auto one = candidate(left.before)) queue.push(*one);
      }
      if (left.after != kNone) {
        if (const auto one = candidate(top.position)) queue.push(*one);
      }
    }
  }

  TokenTable tokens_;
  MergeTable merges_;
  BpeOptions options_;
  std::optional<int64_t> unknown_;
  std::array<int64_t, 256> bytes_{};
  mutable WordCache cache_;
};

}  // namespace

std::unique_ptr<SubwordModel> make_bpe(TokenTable tokens, const std::vector<BpeMerge>& merges,
                                       BpeOptions options) {
  return std::make_unique<Bpe>(std::move(tokens), merges, std::move(options));
}

}  // namespace detent
