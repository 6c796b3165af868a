#include "detent/tokenizers/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  std::vector<std::string> found;
  for (const Pattern::Match& match : Pattern(pattern).find_all(text))
    found.push_back(text.substr(match.begin, match.end - match.begin));
  return found;
}

TEST(Pattern, TriesAlternativesInTheirOrder) {
  EXPECT_THAT(matches("a|ab", "abab"), ElementsAre("a", "a"));
  EXPECT_THAT(matches("(?:ab|a)b", "abb ab"), ElementsAre("abb", "ab"));
  EXPECT_THAT(matches("x(?:a|b)*y", "xababy xy"), ElementsAre("xababy", "xy"));
}

TEST(Pattern, RepeatsGreedilyLazilyAndPossessively) {
  EXPECT_THAT(matches("a+", "aaa"), ElementsAre("aaa"));
  EXPECT_THAT(matches("a+?", "aaa"), ElementsAre("a", "a", "a"));
  EXPECT_THAT(matches("<.+?>", "<a><b>"), ElementsAre("<a>", "<b>"));
  EXPECT_THAT(matches("a?+a", "a aa"), ElementsAre("aa"));
  EXPECT_THAT(matches("\\p{N}{1,3}", "12345"), ElementsAre("123", "45"));
  EXPECT_THAT(matches("(?:ab){2}", "ababab"), ElementsAre("abab"));
  EXPECT_THAT(matches("é*x", "ééx"), ElementsAre("ééx"));
}

TEST(Pattern, LooksAhead) {
  EXPECT_THAT(matches("\\s+(?!\\S)|\\s+", "a   b "), ElementsAre("  ", " ", " "));
  EXPECT_THAT(matches("a(?=b)", "ab ac"), ElementsAre("a"));
}

TEST(Pattern, KnowsCharactersByUnicode) {
  EXPECT_THAT(matches("\\p{L}+", "größe Ёж 漢字 9"), ElementsAre("größe", "Ёж", "漢字"));
  EXPECT_THAT(matches("[^\\s\\p{L}\\p{N}]+", "a, b!? 1"), ElementsAre(",", "!?"));
  EXPECT_THAT(matches("\\w", "²½µⅧ_-"), ElementsAre("²", "½", "µ", "Ⅷ", "_"));
  EXPECT_THAT(matches("[\\w]", "²½µⅧ_-"), ElementsAre("µ", "Ⅷ", "_"));
  EXPECT_THAT(matches("[^\\w]|[\\W]", "²½µⅧ_-"), ElementsAre("²", "½", "-"));
  EXPECT_THAT(matches("\\p{Han}|\\p{Lu}", "漢A字b"), ElementsAre("漢", "A", "字"));
  EXPECT_THAT(matches("[一-龥a-c]", "a漢d"), ElementsAre("a", "漢"));
  EXPECT_THAT(matches("(?i:'s|'ll)", "'S 'ſ 'LL 'l"), ElementsAre("'S", "'ſ", "'LL"));
  EXPECT_THAT(matches("^a|b$", "a\nab\nb"), ElementsAre("a", "a", "b", "b"));
}

TEST(Pattern, MatchesALiteralAsItIs) {
  const auto found = Pattern::literal("a.b").find("xa+b a.b", 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->begin, 5U);
}

TEST(Pattern, RefusesWhatItLacks) {
  for (const char* text : {"(?<=a)b", "(?<name>a)", "\\1", "[a[b]]", "[a&&b]", "\\p{Klingon}", "a{2000}", "(",
                           ")", "[a", "*", "\\h", "(?i:é)", "(?i:st)", "(a?)*", "a{3,2}", "a?*+?*+?*+?*+"})
    EXPECT_THAT(error_of([&] { Pattern pattern(text); }), HasSubstr("regular expression")) << text;
}

TEST(Pattern, EndsWhereBacktrackingWouldNot) {
  const Pattern pattern("(?:a+)+b");
  EXPECT_THAT(error_of([&] { pattern.find(std::string(40, 'a'), 0); }), HasSubstr("takes too long"));
}

}  // namespace
}  // namespace detent
