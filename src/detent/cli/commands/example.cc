#include "detent/cli/commands/command_group.h"
#include "detent/cli/commands/example_commands.h"

namespace detent {
namespace {

const std::vector<Command>& examples() {
  static const std::vector<Command> kExamples = {
      {"per-channel-activation", "what a scale for each channel of an activation wins over one for all",
       run_example_per_channel_activation},
  };
  return kExamples;
}

}  // namespace

int run_example(const std::vector<std::string>& args) {
  return run_group({.name = "example",
                    .help = "Show something about quantization with numbers and a picture.",
                    .one = "name",
                    .commands = examples()},
                   args);
}

}  // namespace detent
