#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>

namespace detent {

/// Runs a shell command in `folder`, with the program that was built before others of its name: the exit
/// status, -1 where a signal ended it. What is printed ends in log.txt there.
inline int run_in(const std::filesystem::path& folder, const std::string& command) {
  const std::string line = fmt::format("cd {} && PATH={}:$PATH {} > log.txt 2>&1 < /dev/null",
                                       folder.string(), DETENT_BIN, command);
  const int status = std::system(line.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Puts a network of the built-in digits there, trained, as digits.pt.
inline int make_trained_digits(const std::filesystem::path& folder) {
  return run_in(folder, "detent quickstart --no-training --output-dir quickstart") +
         run_in(folder, "cp quickstart/float.pt digits.pt");
}

/// Whether the program can train; where it cannot, DETENT_TORCH=OFF.
#ifdef DETENT_TRAINING
constexpr bool kHasTraining = true;
#else
constexpr bool kHasTraining = false;
#endif

}  // namespace detent
