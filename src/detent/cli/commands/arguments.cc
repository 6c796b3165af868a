#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/core/error.h"

namespace detent {
namespace {

[[noreturn]] void refuse(const CLI::App& app, const std::string& fault) {
  throw UsageError(fmt::format("{} (see `{} --help`)", fault, app.get_name()));
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace

bool parse_arguments(CLI::App& app, const std::vector<std::string>& args) {
  app.allow_extras();
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    refuse(app, error.what());
  }
  for (const std::string& extra : app.remaining()) {
    if (extra.starts_with('-') && extra.size() > 1) {
      refuse(app, unknown_name_message("option", extra.substr(0, extra.find('=')), option_names(app)));
    }
    refuse(app, fmt::format("unexpected argument \"{}\"", extra));
  }
  return true;
}

void print(std::string_view text) {
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  if (errno != EPIPE) fail("cannot write to standard output: {}", std::strerror(errno));
}

}  // namespace detent
