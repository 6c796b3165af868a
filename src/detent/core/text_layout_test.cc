#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "detent/core/text.h"
#include "detent/core/text_table.h"

namespace detent {
namespace {

using testing::ElementsAre;

TEST(TextWrap, BreaksAtSpacesAndLongWordsAtPunctuation) {
  EXPECT_THAT(wrapped_lines("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped_lines("layer1_0_conv1.weight", 10), ElementsAre("layer1_0_", "conv1.", "weight"));
  EXPECT_THAT(wrapped_lines("abcdefgh", 3), ElementsAre("abc", "def", "gh"));
  EXPECT_THAT(wrapped_lines("a\n\nb", 9), ElementsAre("a", "", "b"));
  EXPECT_THAT(wrapped_lines("\xc3\xa4\xc3\xb6\xc3\xbc", 2), ElementsAre("\xc3\xa4\xc3\xb6", "\xc3\xbc"));
  EXPECT_THAT(wrapped_lines("", 5), ElementsAre(""));
}

TEST(TextWrap, DescribesInTwoColumns) {
  EXPECT_EQ(described("--a", "first second", 34),
            "  --a                     first\n"
            "                          second\n");
  EXPECT_EQ(described("--an-option-with-a-long-name", "help", 80),
            "  --an-option-with-a-long-name\n"
            "                          help\n");
}

TEST(TextTable, FitsTheColumnsThatThereAre) {
  TextTable table({"node", "what it became", "n"});
  table.add_row({"layer1_0_conv1", "data_in_0: affine, weight: affine", "12345"});
  table.add_row({"fc", "", "7"});
  EXPECT_EQ(table.to_text(kUnlimitedColumns), table.to_text(70));
  const std::string narrow = table.to_text(42);
  EXPECT_EQ(narrow,
            "| node          | what it became |     n |\n"
            "|---------------|----------------|------:|\n"
            "| layer1_0_     | data_in_0:     | 12345 |\n"
            "| conv1         | affine,        |       |\n"
            "|               | weight: affine |       |\n"
            "| fc            |                |     7 |\n");
  std::istringstream lines(table.to_text(20));  // less than numbers and words of six letters need
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(line.size(), 27U) << line;
}

TEST(TextTable, KeepsSpacesOfCellsThatFitAndEscapesControls) {
  TextTable table({"a"});
  table.add_row({"x  y "});
  table.add_row({"\x1b[1m\n"});
  EXPECT_EQ(table.to_text(40),
            "| a               |\n|-----------------|\n| x  y            |\n| \\u001b[1m\\u000a |\n");
}

}  // namespace
}  // namespace detent
