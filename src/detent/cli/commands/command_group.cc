#include "detent/cli/commands/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detent/cli/command_description.h"
#include "detent/core/error.h"
#include "detent/core/text.h"

namespace detent {
namespace {

std::string help_text(const CommandGroup& group) {
  return wrapped_text(group.help, 0, help_columns()) +
         fmt::format("Usage: detent {} <{}> [arguments]\n\n", group.name, group.one) +
         commands_text(
             fmt::format("{}{}s:", static_cast<char>(std::toupper(group.one[0])), group.one.substr(1)),
             group.commands) +
         fmt::format("\n`detent {} <{}> --help` tells more.\n", group.name, group.one);
}

}  // namespace

int run_group(const CommandGroup& group, const std::vector<std::string>& args) {
  if (is_describing()) {
    for (const Command& command : group.commands) command.run({});
    return 0;
  }
  std::vector<std::string> known;
  for (const Command& command : group.commands) known.push_back(command.name);
  const std::string usage = fmt::format("detent {} <{}> [arguments]", group.name, group.one);
  if (args.empty())
    throw UsageError(
        fmt::format("a {} is missing (known: {}): `{}`", group.one, fmt::join(known, ", "), usage));
  if (args[0] == "--help" || args[0] == "--help-all" || args[0] == "-h" || args[0] == "help") {
    print(help_text(group));
    return 0;
  }
  for (const Command& command : group.commands) {
    if (command.name == args[0]) return command.run({args.begin() + 1, args.end()});
  }
  const std::string kind = args[0].starts_with('-') ? "option" : group.one;
  throw UsageError(fmt::format("{}: `{}`", unknown_name_message(kind, args[0], known), usage));
}

}  // namespace detent
