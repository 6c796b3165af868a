// What LUTNet leaves of a network of signs on the built-in digits, by one command, with a fixed seed: at most
// a point, with half of the XNORs left out; and that all that runs the truth tables gives the same.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/io/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LutnetAccuracySlow : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path log = fs::temp_directory_path() / fmt::format("detent_lutnet_{}.txt", getpid());
    const int status =
        std::system(fmt::format("{}/bench/lutnet.sh {}/detent --seed 0 --num-threads 1 > {} 2>&1",
                                DETENT_SOURCE_DIR, DETENT_BIN, log.string())
                        .c_str());
    printed_ = read_file(log);
    fs::remove(log);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << printed_;
  }

  /// Test images that are classified, of the line that begins so.
  int correct(const std::string& line) const {
    std::smatch match;
    const bool found = std::regex_search(printed_, match, std::regex(line + R"(: .*\((\d+)/360\))"));
    EXPECT_TRUE(found) << line << "\n" << printed_;
    return found ? std::stoi(match[1]) : 0;
  }

  std::string printed_;
};

TEST_F(LutnetAccuracySlow, IsThatOfTheSigns) {
  constexpr double kImages = 360;
  const int signs = correct("signs");
  const int tables = correct("tables");
  EXPECT_GE(signs, 0.93 * kImages);
  EXPECT_GE(tables, signs - 0.01 * kImages) << printed_;
  EXPECT_LT(correct("pruned, not trained"), tables) << "training matters";
  EXPECT_THAT(printed_, HasSubstr("lutnet: fc1: 4096 of 8192 XNORs"));
  EXPECT_THAT(printed_, HasSubstr("lutnet: fc2: 4096 of 8192 XNORs"));
  EXPECT_THAT(printed_, HasSubstr("lutnet: fc3: 640 of 1280 XNORs"));
  EXPECT_THAT(printed_, HasSubstr("finish_lutnet: 0 of 10240 outputs differ"));
  for (const char* engine : {"simulation", "reference", "fast"})
    EXPECT_EQ(correct(fmt::format("truth tables, {}", engine)), tables) << engine;
}

}  // namespace
}  // namespace detent
