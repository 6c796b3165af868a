#pragma once

#include "detent/cli/torch_command.h"
#include "detent/core/process_group.h"

namespace detent {

// One command a file. Results go to standard output, which only the first worker of `group` has.
void run_train(const TorchCommand& command, ProcessGroup& group);
/// The quickstart with networks that it trains and fine-tunes.
void run_training_quickstart(const TorchCommand& command);

}  // namespace detent
