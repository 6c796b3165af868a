#include "detent/cli/command_description.h"

#include <algorithm>

#include <CLI/CLI.hpp>

namespace detent {
namespace {

/// Where `describe` gathers, while it does.
std::vector<CommandDescription>* gathered = nullptr;

/// "fast" and "plain" of "... (one of fast, plain or NA; default fast)".
std::vector<std::string> choices_in(const std::string& help) {
  const std::string begin = "(one of ";
  const size_t from = help.rfind(begin);
  if (from == std::string::npos) return {};
  std::string list = help.substr(from + begin.size(), help.find_first_of(";)", from) - from - begin.size());
  if (const size_t end = list.find(" or "); end != std::string::npos) list.replace(end, 4, ", ");
  std::vector<std::string> choices;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(", ", at), list.size());
    choices.push_back(list.substr(at, end - at));
    at = end + 2;
  }
  return choices;
}

OptionDescription description_of(const CLI::Option& option) {
  OptionDescription description{.flags = {},
                                .value = "",
                                .help = option.get_description(),
                                .group = option.get_group(),
                                .place = option.get_positional() ? option.get_name(true) : "",
                                .choices = choices_in(option.get_description())};
  for (const std::string& name : option.get_lnames()) description.flags.push_back("--" + name);
  for (const std::string& name : option.get_snames()) description.flags.push_back("-" + name);
  if (option.get_expected_min() == 0) return description;
  const std::string& text = option.get_option_text();
  const bool is_blank = text.find_first_not_of(' ') == std::string::npos;
  description.value = is_blank ? "VALUE" : text;
  return description;
}

}  // namespace

bool is_describing() { return gathered != nullptr; }

void add_description(const CLI::App& app) {
  CommandDescription command{.name = app.get_name(), .help = app.get_description(), .options = {}};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) command.options.push_back(description_of(*option));
  }
  gathered->push_back(std::move(command));
}

std::vector<CommandDescription> describe(std::span<const Command> commands) {
  std::vector<CommandDescription> descriptions;
  gathered = &descriptions;
  try {
    for (const Command& command : commands) command.run({});
  } catch (...) {
    gathered = nullptr;
    throw;
  }
  gathered = nullptr;
  return descriptions;
}

}  // namespace detent
