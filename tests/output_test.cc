// Output of the program, as its users see it: through a pipe and on a terminal.

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/text.h"
#include "detent/files/file.h"
#include "program_in_folder_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Output : public TrainedDigits {
 protected:
  static std::string shell_line(const std::string& command) {
    return fmt::format("cd {} && PATH={}:$PATH {}", folder().string(), DETENT_BIN, command);
  }
  /// On a terminal of 80 columns; what it was sent ends in `log`.
  static int run_on_terminal(const std::string& command, const std::string& environment = "") {
    return run(fmt::format("env -u NO_COLOR TERM=xterm {} script -qec 'stty cols 80 rows 24; {}' /dev/null",
                           environment, command));
  }

  const std::string network_ = "--load digits.pt";
};

TEST_F(Output, LinesArriveWhenTheyArePrinted) {
  if (!kHasTraining) GTEST_SKIP() << "built without libtorch, which training needs";
  using Clock = std::chrono::steady_clock;
  const std::string line =
      shell_line("detent train toy toy-tiny --max-epochs 100000 --max-time 4s --project piped 2>&1");
  std::FILE* pipe = popen(line.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.find("epoch 1/") == std::string::npos &&
         std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    text += buffer.data();
  }
  const auto first = Clock::now();
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  EXPECT_GT(Clock::now() - first, std::chrono::milliseconds(1500)) << "the first line came with the last";
  EXPECT_EQ(pclose(pipe), 0) << text;
  EXPECT_THAT(text, HasSubstr("max_time is up"));
}

TEST_F(Output, FitsATerminalOf80Columns) {
  ASSERT_EQ(run_on_terminal("detent quantize digits_cnn digits --num-samples 200 " + network_), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("layer-wise error analysis"), HasSubstr("written to ")));
  std::istringstream lines(log());
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    const size_t drawn = line.rfind("\033[K");  // what was there before is gone
    if (drawn != std::string::npos) line.erase(0, drawn + 3);
    const bool is_path = line.find("detent_output/") != std::string::npos;  // to be copied, so in one line
    if (is_path) continue;
    EXPECT_LE(display_width(line), 80U) << line;
  }
  for (const char* command : {"detent list", "detent list passes", "detent list formats", "detent formats"}) {
    ASSERT_EQ(run_on_terminal(command), 0);
    std::istringstream listed(log());
    for (std::string line; std::getline(listed, line);)
      EXPECT_LE(display_width(line), 81U) << line;  // with \r
  }
}

TEST_F(Output, ColoursWhereATerminalIsAndNobodyRefusesThem) {
  std::ofstream(folder() / "report.toml")
      << "model = \"digits_cnn\"\ndataset = \"digits\"\n[passes.report_graph]\n";
  const std::string command = "detent transform --config report.toml";  // warns that nothing was loaded
  ASSERT_EQ(run_on_terminal(command), 0) << log();
  EXPECT_THAT(log(), HasSubstr("\033[33m"));
  ASSERT_EQ(run_on_terminal(command, "NO_COLOR=1"), 0);
  EXPECT_THAT(log(), AllOf(HasSubstr("no --load"), Not(HasSubstr("\033["))));
  ASSERT_EQ(run(command), 0);
  EXPECT_THAT(log(), AllOf(HasSubstr("no --load"), Not(HasSubstr("\033["))));
}

}  // namespace
}  // namespace detent
