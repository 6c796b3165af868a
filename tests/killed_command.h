#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace detent {

/// What a process does: the program with arguments, or, where there is one, a function of this program.
struct Command {
  std::vector<std::string> arguments = {};
  std::vector<std::string> environment = {};  // "NAME=value"
  std::function<void()> function = {};
};

/// Runs it in `folder` and kills it before the n-th of the system calls by which it changes files (n >= 1);
/// standard output and error go to `folder`/log.txt. Returns how many there were when it ended by itself, and
/// well, or -1 when it was killed. Throws Error, with what it printed, when it failed.
int64_t run_until_call(const Command& command, const std::filesystem::path& folder, int64_t n);

/// Likewise, to its end.
inline int64_t run_to_end(const Command& command, const std::filesystem::path& folder) {
  return run_until_call(command, folder, -1);
}

}  // namespace detent
