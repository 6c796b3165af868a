#pragma once

#include "detent/cli/torch_command.h"

namespace detent {

// One command a file. Results go to standard output.
void run_train(const TorchCommand& command);
void run_test(const TorchCommand& command);
void run_transform(const TorchCommand& command);
void run_quickstart(const TorchCommand& command);

}  // namespace detent
