#include "detent/tokenizers/byte_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace detent {
namespace {

/// A few letters, so that many begin alike.
std::string random_text(std::mt19937_64& random, size_t longest) {
  std::string text(random() % (longest + 1), '\0');
  for (char& letter : text) letter = static_cast<char>("\0a\xFFz"[random() % 4]);
  return text;
}

TEST(ByteTrie, FindsWhatAMapFinds) {
  std::mt19937_64 random(1);
  for (const size_t count : {0U, 1U, 10U, 3000U}) {
    ByteTrie trie;
    std::map<std::string, int64_t> inserted;
    for (size_t i = 0; i < count; ++i) {
      const std::string text = random_text(random, 9);
      trie.insert(text, static_cast<int64_t>(i));
      if (!text.empty()) inserted[text] = static_cast<int64_t>(i);
    }
    EXPECT_EQ(trie.empty(), inserted.empty());
    for (int i = 0; i < 500; ++i) {
      const std::string text = random_text(random, 20);
      const size_t from = random() % (text.size() + 1);
      std::vector<std::pair<size_t, int64_t>> wanted;
      for (size_t length = 1; from + length <= text.size(); ++length) {
        const auto found = inserted.find(text.substr(from, length));
        if (found != inserted.end()) wanted.emplace_back(length, found->second);
      }
      std::vector<std::pair<size_t, int64_t>> visited;
      trie.each_prefix(text, from,
                       [&](size_t length, int64_t value) { visited.emplace_back(length, value); });
      ASSERT_EQ(visited, wanted);
      const auto longest = trie.longest(text, from);
      ASSERT_EQ(longest.has_value(), !wanted.empty());
      if (!longest) continue;
      EXPECT_EQ(longest->length, wanted.back().first);
      EXPECT_EQ(longest->value, wanted.back().second);
    }
  }
}

}  // namespace
}  // namespace detent
