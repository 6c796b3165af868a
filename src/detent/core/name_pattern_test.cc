#include "detent/core/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string pattern_error(const std::string& text) {
  return detent::error_of([&] { NamePattern(text, "a.toml: key \"k\""); });
}

TEST(NamePattern, MatchesWholeNamesOrParts) {
  const NamePattern pattern("layer[12]\\..*", "test");
  EXPECT_TRUE(pattern.matches("layer1.0.conv1"));
  EXPECT_FALSE(pattern.matches("model.layer1.0.conv1"));
  EXPECT_TRUE(pattern.occurs_in("model.layer1.0.conv1"));
  EXPECT_FALSE(pattern.occurs_in("layer3.0.conv1"));
  EXPECT_FALSE(pattern.matches("layer1"));
}

TEST(NamePattern, TreatsNamesAsBytes) {
  EXPECT_TRUE(NamePattern("a.b", "test")
                  .matches("a\xff"
                           "b"));
  EXPECT_TRUE(NamePattern("a.b", "test").matches(std::string_view("a\0b", 3)));
}

TEST(NamePattern, IsLinearInLongNames) {
  const std::string name(1'000'000, 'a');
  EXPECT_TRUE(NamePattern("(a|a)*(a?)*", "test").matches(name));
  EXPECT_FALSE(NamePattern("(a*)*b", "test").matches(name));
  EXPECT_TRUE(NamePattern(".*a", "test").occurs_in(name));
  const std::string long_text(50'000, 'a');
  EXPECT_TRUE(NamePattern(long_text, "test").occurs_in(name));
  EXPECT_FALSE(NamePattern(long_text + 'b', "test").occurs_in(name));
  EXPECT_LT(unmatched_pattern_message(name, {}).size(), 200u);
}

TEST(NamePattern, RefusesWhatIsNoExpression) {
  EXPECT_THAT(pattern_error("("), StartsWith("a.toml: key \"k\": \"(\" is no regular expression: missing )"));
  EXPECT_THAT(pattern_error("[z-a]"), HasSubstr("is no regular expression"));
  EXPECT_THAT(pattern_error("(a)\\1"), HasSubstr("is no regular expression"));
}

// std::regex ends with a stack overflow on either.
TEST(NamePattern, SurvivesDeepAndLargeExpressions) {
  const std::string deep = std::string(20'000, '(') + 'a' + std::string(20'000, ')');
  try {
    EXPECT_TRUE(NamePattern(deep, "test").matches("a"));
  } catch (const Error&) {  // newer versions of RE2 have a limit
  }
  for (const std::string& text : {std::string(20'000, '('), std::string("((((a{100}){100}){100}){100})")}) {
    const std::string message = pattern_error(text);
    EXPECT_THAT(message, HasSubstr("is no regular expression"));
    EXPECT_LT(message.size(), 300u);
  }
}

}  // namespace
}  // namespace detent
