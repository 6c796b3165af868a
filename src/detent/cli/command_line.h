#pragma once

#include <string>
#include <vector>

namespace detent {

/// The program: `args` without its name, which is `program`, "detent" or "ch". Results go to standard output,
/// errors ("detent: error: ...") to standard error. Returns the exit status: 0, 1 on failure, 2 on wrong
/// usage, 128 + signal after a signal that was answered by saving. Throws nothing.
int run_command_line(const std::vector<std::string>& args, const std::string& program = "detent");

}  // namespace detent
