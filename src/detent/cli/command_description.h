#pragma once

#include <span>
#include <string>
#include <vector>

#include "detent/cli/commands/command.h"

namespace detent {

/// What a command takes, as its help says it: for completion in shells and the manual page.
struct OptionDescription {
  std::vector<std::string> flags;  // "--output", "-o"; none of what is told by its place
  std::string value;               // what stands after them, "FILE"; "" of a switch
  std::string help;
  std::string group;
  std::string place;                 // "model": may stand without a flag
  std::vector<std::string> choices;  // where the help names all
};

struct CommandDescription {
  std::string name;  // "detent tensor quantize"
  std::string help;
  std::vector<OptionDescription> options;
};

/// All of them, those of groups one by one. None runs.
std::vector<CommandDescription> describe(std::span<const Command> commands);

/// Whether a command is only asked for its description: parse_arguments takes it and returns false.
bool is_describing();
void add_description(const CLI::App& app);

}  // namespace detent
