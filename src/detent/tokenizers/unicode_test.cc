#include "detent/tokenizers/unicode.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace detent {
namespace {

TEST(Unicode, ReplacesEachMaximalPartOfACharacter) {
  // As Python's bytes.decode("utf-8", errors="replace").
  const std::string r = "\uFFFD";
  EXPECT_EQ(with_valid_utf8("a\xFF"), "a" + r);
  EXPECT_EQ(with_valid_utf8("\xE2\x82x"), r + "x");
  EXPECT_EQ(with_valid_utf8("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(with_valid_utf8("\xF0\x9F\x98 \xF4\x90\x80\x80"), r + " " + r + r + r + r);
  EXPECT_EQ(with_valid_utf8("\xC0\xAF"), r + r);
  EXPECT_EQ(with_valid_utf8("größe 漢字 😀"), "größe 漢字 😀");
  EXPECT_FALSE(is_valid_utf8("\xE0\x80\x80"));
}

TEST(Unicode, NormalizesToAllForms) {
  const std::string text = "e\u0323\u0307 \u1E0B\u0323 Å ﬁ 각 \u1100\u1161\u11A8";
  EXPECT_EQ(normalized(text, NormalForm::kNfc), "\u1EB9\u0307 \u1E0D\u0307 \u00C5 ﬁ 각 각");
  EXPECT_EQ(normalized(text, NormalForm::kNfd),
            "e\u0323\u0307 d\u0323\u0307 A\u030A ﬁ \u1100\u1161\u11A8 \u1100\u1161\u11A8");
  EXPECT_EQ(normalized(text, NormalForm::kNfkc), "\u1EB9\u0307 \u1E0D\u0307 \u00C5 fi 각 각");
  EXPECT_EQ(normalized("ﷺ", NormalForm::kNfkd), "صلى الله عليه وسلم");
}

TEST(Unicode, LowersEachCharacterByItself) { EXPECT_EQ(lowercase("ÀΣİß"), "àσi\u0307ß"); }

TEST(Unicode, FindsGraphemeClusters) {
  EXPECT_EQ(cluster_ends("e\u0301x"), (std::vector<size_t>{3, 4}));
  EXPECT_EQ(cluster_ends("\r\n\n"), (std::vector<size_t>{2, 3}));
  EXPECT_EQ(cluster_ends("👍🏽!"), (std::vector<size_t>{8, 9}));
  EXPECT_TRUE(cluster_ends("").empty());
}

TEST(Unicode, KnowsProperties) {
  EXPECT_EQ(properties_of('A').category, Category::kLu);
  EXPECT_EQ(properties_of(0x0663).category, Category::kNd);
  EXPECT_EQ(properties_of(0x6F22).script, Script::kHan);
  EXPECT_TRUE(properties_of(0x3000).has(kIsSpace));
  EXPECT_FALSE(properties_of(0x200B).has(kIsSpace));
  EXPECT_TRUE(properties_of(0x00BD).has(kIsNumeric));
  EXPECT_EQ(properties_of(0x7FFFFFFF).category, Category::kCn);
}

}  // namespace
}  // namespace detent
