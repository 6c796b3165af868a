#pragma once

#include "detent/cli/torch_command.h"

namespace detent {

/// Runs the command: training in the half of the program that needs libtorch
/// (run_torch_command), all others here.
void run_command(const TorchCommand& command);

/// Whether there is that half.
bool has_training();

/// Loads `libdetent_torch.so` and runs the command there. The library is looked for beside the program and in
/// `../lib/detent` from there. Throws what the command throws, and Error when the library is missing or
/// cannot be loaded.
void run_torch_command(const TorchCommand& command);

}  // namespace detent
