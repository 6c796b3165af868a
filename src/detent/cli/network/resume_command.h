#pragma once

#include <string>
#include <vector>

#include "detent/cli/torch_command.h"

namespace detent {

/// This process's command line.
std::vector<std::string> process_arguments();

/// `text` as one word of a POSIX shell, quoted where it must be.
std::string shell_word(const std::string& text);

/// Such words with blanks between.
std::string shell_line(const std::vector<std::string>& words);

/// What to type to resume the training that `arguments` began: they, with the project's name, which depends
/// on the date where it was not given, and --resume.
std::string resume_command(std::vector<std::string> arguments, const TorchCommand& command);

}  // namespace detent
