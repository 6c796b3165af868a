#pragma once

#include <span>
#include <string>
#include <vector>

#include "detent/cli/command_description.h"

namespace detent {

/// What may stand after `words`, the words of a command line without the program's name: commands, options,
/// or what an option or place takes, where that is a list. Empty where any text or file may.
std::vector<std::string> completions(std::span<const CommandDescription> commands,
                                     const std::vector<std::string>& words);

/// The manual page, section 1, in the macros of man(7).
std::string manual_page(std::span<const CommandDescription> commands);

}  // namespace detent
