#include "detent/core/text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "detent/core/log.h"
#include "detent/core/progress.h"

namespace detent {
namespace {

TEST(Terminal, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("\x1b]0;title\x07 name"), "\\u001b]0;title\\u0007 name");
  EXPECT_EQ(printable("a\tb\nc\r"), "a\tb\nc\\u000d");
  EXPECT_EQ(printable_line("a\tb\nc"), "a\\u0009b\\u000ac");
  EXPECT_EQ(printable("\x9b[31m"), "\\x9b[31m") << "a C1 byte of an 8-bit terminal";
  EXPECT_EQ(printable("\xc2\x9b[31m"), "\\u009b[31m");
  EXPECT_EQ(printable("\x7f"), "\\u007f");
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\u202e") << "right to left";
  EXPECT_EQ(printable("\xed\xa0\x80 \xc0\x80 \xf5"), "\\xed\\xa0\\x80 \\xc0\\x80 \\xf5");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\u0000");
}

TEST(Terminal, LeavesTextAsItIs) {
  const std::string text = "weights \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 ~";
  EXPECT_EQ(printable(text), text);
}

TEST(Terminal, AFileIsNoTerminal) {
  EXPECT_EQ(terminal_columns(-1), kUnlimitedColumns);
  EXPECT_FALSE(wants_colour(-1));
}

TEST(Terminal, LogLinesAreEscaped) {
  testing::internal::CaptureStderr();
  set_up_logging("info");
  log_warning("{}", "name\x1b[2J");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning  name\\u001b[2J\n");
}

TEST(Progress, SaysNothingOfShortWorkAndMoreRarelyTheLongerItTakes) {
  testing::internal::CaptureStderr();
  {
    Progress progress("short", 100);
    for (int i = 1; i <= 100; ++i) progress.update(i);
    Progress hidden("hidden", 100, {.shown = false});
    Progress longer("longer\x1b", 22);
    for (int i = 1; i <= 22; ++i) {
      usleep(100'000);
      longer.update(i, "node");
      hidden.update(i);
    }
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
  EXPECT_TRUE(lines.starts_with("longer\\u001b 10/22  ")) << lines;
}

TEST(Progress, SaysHowLongWorkOfUnknownLengthHasTaken) {
  testing::internal::CaptureStderr();
  {
    Progress progress("yosys", 0);
    usleep(1'050'000);
    progress.update(0);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "yosys  0:01\n");
}

}  // namespace
}  // namespace detent
