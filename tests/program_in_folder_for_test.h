#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "detent/files/file.h"

namespace detent {

/// Runs a shell command in `folder`, with the program that was built before others of its name: the exit
/// status, -1 where a signal ended it. What is printed ends in log.txt there.
inline int run_in(const std::filesystem::path& folder, const std::string& command) {
  const std::string line = fmt::format("cd {} && PATH={}:$PATH {} > log.txt 2>&1 < /dev/null",
                                       folder.string(), DETENT_BIN, command);
  const int status = std::system(line.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A folder of each suite with digits.pt: a network of the built-in digits, trained.
class TrainedDigits : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::create_directories(folder());
    ASSERT_EQ(run("detent quickstart --no-training --output-dir quickstart"), 0) << log();
    ASSERT_EQ(run("cp quickstart/float.pt digits.pt"), 0) << log();
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }

  static std::filesystem::path folder() {
    return std::filesystem::temp_directory_path() / fmt::format("detent_trained_digits_{}", getpid());
  }
  /// The exit status; what is printed ends in `log`.
  static int run(const std::string& command) { return run_in(folder(), command); }
  static std::string log() { return read_file(folder() / "log.txt"); }
};

/// Whether the program can train; where it cannot, DETENT_TORCH=OFF.
#ifdef DETENT_TRAINING
constexpr bool kHasTraining = true;
#else
constexpr bool kHasTraining = false;
#endif

}  // namespace detent
