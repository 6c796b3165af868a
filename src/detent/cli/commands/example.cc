#include "detent/cli/commands/command.h"
#include "detent/cli/commands/example_commands.h"
#include "detent/core/error.h"

namespace detent {
namespace {

const std::vector<Command>& examples() {
  static const std::vector<Command> kExamples = {
      {"per-channel-activation", "what a scale for each channel of an activation wins over one for all",
       run_example_per_channel_activation},
  };
  return kExamples;
}

std::string help_text() {
  return "Show something about quantization with numbers and a picture.\n"
         "Usage: detent example <name> [arguments]\n"
         "\n" +
         commands_text("Examples:", examples()) + "\n`detent example <name> --help` tells more.\n";
}

}  // namespace

int run_example(const std::vector<std::string>& args) {
  if (args.empty()) throw UsageError("example: a name is missing (see `detent example --help`)");
  if (args[0] == "--help" || args[0] == "-h") {
    print(help_text());
    return 0;
  }
  std::vector<std::string> names;
  for (const Command& example : examples()) {
    if (example.name == args[0]) return example.run({args.begin() + 1, args.end()});
    names.push_back(example.name);
  }
  throw UsageError(unknown_name_message("example", args[0], names));
}

}  // namespace detent
