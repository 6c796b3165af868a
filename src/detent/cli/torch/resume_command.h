#pragma once

#include <string>
#include <vector>

#include "detent/cli/torch_command.h"
#include "detent/training/training_state.h"

namespace detent {

/// "after epoch 2, step 16" or "in epoch 3 after 5 batches, step 21".
std::string where_it_stopped(const TrainingProgress& progress);

/// This process's command line.
std::vector<std::string> process_arguments();

/// `text` as one word of a POSIX shell, quoted where it must be.
std::string shell_word(const std::string& text);

/// What to type to resume the training that `arguments` began: they, with the project's name, which depends
/// on the date where it was not given, and --resume.
std::string resume_command(std::vector<std::string> arguments, const TorchCommand& command);

}  // namespace detent
