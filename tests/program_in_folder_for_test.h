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

}  // namespace detent
