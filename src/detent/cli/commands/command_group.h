#pragma once

#include <span>
#include <string>
#include <vector>

#include "detent/cli/commands/command.h"

namespace detent {

/// A command that is made of others, as `detent tensor quantize`.
struct CommandGroup {
  std::string name;  // "tensor"
  std::string help;
  std::string one = "command";  // what they are called
  std::span<const Command> commands;
};

/// Runs the one that `args` begins with, or prints what there is. Throws UsageError naming the nearest.
int run_group(const CommandGroup& group, const std::vector<std::string>& args);

}  // namespace detent
