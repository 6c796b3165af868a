#include "detent/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace detent {
namespace {

using testing::ElementsAre;

TEST(TextParts, AreOneMoreThanSeparators) {
  EXPECT_THAT(text_parts("a,b", ','), ElementsAre("a", "b"));
  EXPECT_THAT(text_parts("a", ','), ElementsAre("a"));
  EXPECT_THAT(text_parts(",a,,", ','), ElementsAre("", "a", "", ""));
  EXPECT_THAT(text_parts("", ','), ElementsAre(""));
}

}  // namespace
}  // namespace detent
