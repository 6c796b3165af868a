#pragma once

#include <span>
#include <string>
#include <vector>

#include "detent/cli/commands/command.h"

namespace detent {

/// An option of a command, as its help describes it: for completion in shells and the manual page.
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

/// Words that may follow `words`, the words of a command line without the program's name: commands, options,
/// or what an option or place takes, where that is a list. Empty where any text or file may.
std::vector<std::string> completions(std::span<const CommandDescription> commands,
                                     const std::vector<std::string>& words);

/// The manual page, section 1, in the macros of man(7).
std::string manual_page(std::span<const CommandDescription> commands);

}  // namespace detent
