#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/core/error.h"
#include "detent/core/text_wrap.h"

namespace detent {
namespace {

/// Help in two columns that fit the terminal.
class HelpFormat final : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override {
    return wrapped_text(app->get_description(), 0, help_columns());
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return Formatter::make_usage(app, name) + "\n";
  }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    std::string text = group + ":\n";
    for (const CLI::Option* option : options) text += make_option(option, is_positional);
    return text + (is_positional ? "\n" : "");  // CLI11 puts one between the groups of options
  }
  /// What is both, "model, --model", stands among the positionals only.
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    if (!is_positional && option->get_positional()) return "";
    std::string name = option->get_name(is_positional, true);
    if (!is_positional) name += make_option_opts(option);
    while (name.ends_with(' ')) name.pop_back();
    return described(name, option->get_description(), help_columns());
  }
};

[[noreturn]] void refuse(const CLI::App& app, const std::string& fault) {
  throw UsageError(fmt::format("{} (see `{} --help`)", fault, app.get_name()));
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// An empty text is a variable of the shell that was not set, not a wish.
void refuse_empty_texts(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const bool is_flag = option->get_expected_min() == 0;
    if (is_flag || option->get_group().empty()) continue;
    for (const std::string& text : option->results()) {
      if (!text.empty()) continue;
      refuse(app, fmt::format("{}: got \"\", expected {}", option->get_name(),
                              option->get_option_text().find_first_not_of(' ') == std::string::npos
                                  ? "a value"
                                  : option->get_option_text()));
    }
  }
}

}  // namespace

bool parse_arguments(CLI::App& app, const std::vector<std::string>& args) {
  app.allow_extras();
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag();
  app.set_help_flag("-h,--help", "print this help");  // behind the options of its own
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    refuse(app, error.what());
  }
  bool options_ended = false;
  for (const std::string& extra : app.remaining()) {
    if (extra == "--" && !options_ended) {
      options_ended = true;
      continue;
    }
    if (!options_ended && extra.starts_with('-') && extra.size() > 1) {
      refuse(app, unknown_name_message("option", extra.substr(0, extra.find('=')), option_names(app)));
    }
    refuse(app, fmt::format("unexpected argument \"{}\"", extra));
  }
  refuse_empty_texts(app);
  return true;
}

void add_result_options(CLI::App& app, ResultOptions& options, bool draws) {
  app.add_flag("--json", options.json, "print the results as JSON instead of text (docs/results.md)");
  if (!draws) return;
  app.add_option("--report", options.report, "write a page (NAME.html) that shows the results")
      ->option_text("FILE");
}

std::string commands_text(std::string_view headline, std::span<const Command> commands) {
  std::string text(headline);
  text += '\n';
  for (const Command& command : commands) text += described(command.name, command.help, help_columns());
  return text;
}

}  // namespace detent
