#include "detent/tokenizers/tokenizer.h"

#include <gtest/gtest.h>

#include "detent/core/error.h"

namespace detent {
namespace {

TEST(StopStrings, HoldsBackWhatMayBeTheBeginningOfOne) {
  StopStrings stops({"###", "END"});
  EXPECT_EQ(stops.add("a#"), "a");
  EXPECT_EQ(stops.add("#b"), "##b");
  EXPECT_EQ(stops.add("E"), "");
  EXPECT_EQ(stops.add("N"), "");
  EXPECT_FALSE(stops.found());
  EXPECT_EQ(stops.add("D and more ###"), "");
  EXPECT_TRUE(stops.found());
  EXPECT_EQ(stops.add("nothing"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, GivesTheRestWhereNoneComes) {
  StopStrings stops({"aab"});
  EXPECT_EQ(stops.add("aaa"), "a");
  EXPECT_EQ(stops.finish(), "aa");
  EXPECT_EQ(StopStrings({}).add("all"), "all");
}

TEST(StopStrings, EndsAtTheFirstOfSeveral) {
  StopStrings stops({"two", "one"});
  EXPECT_EQ(stops.add("zero one two"), "zero ");
}

TEST(StopStrings, RefusesAnEmptyOne) { EXPECT_THROW(StopStrings({""}), UsageError); }

}  // namespace
}  // namespace detent
