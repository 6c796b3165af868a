// Accuracy of networks of truth tables, by the commands of docs/lut_networks.md.

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "detent/files/file.h"

namespace detent {
namespace {

/// Output of a script of bench/.
std::string output_of(const std::string& script) {
  const auto log = std::filesystem::temp_directory_path() / fmt::format("detent_lut_accuracy_{}", getpid());
  const int status = std::system(
      fmt::format("{}/bench/{} > {} 2>&1 < /dev/null", DETENT_SOURCE_DIR, script, log.string()).c_str());
  std::string text = read_file(log);
  std::filesystem::remove(log);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
  return text;
}

TEST(LutAccuracy, LogicNetOnDigits) {
  const std::string text = output_of(fmt::format("logicnets.sh {}/detent digits", DETENT_BIN));
  std::smatch match;
  ASSERT_TRUE(std::regex_search(text, match, std::regex(R"(at most (\d+) LUTs)"))) << text;
  EXPECT_LE(std::stoi(match[1]), 3000);
  ASSERT_TRUE(std::regex_search(text, match, std::regex(R"(network: test:.*\((\d+)/360\))"))) << text;
  const std::string correct = match[1];
  EXPECT_GE(std::stoi(correct), 342) << "95 %";
  for (const char* engine : {"simulation", "reference", "fast"}) {
    const std::regex as_good(fmt::format(R"(tables, {}: test:.*\({}/360\)\n.*\| equal)", engine, correct));
    EXPECT_TRUE(std::regex_search(text, as_good)) << engine << "\n" << text;
  }
}

}  // namespace
}  // namespace detent
