#include <fmt/format.h>
#include <algorithm>

#include <CLI/CLI.hpp>

#include "detent/cli/command_description.h"
#include "detent/cli/commands/command.h"
#include "detent/core/error.h"
#include "detent/core/text.h"

namespace detent {
namespace {

/// Help in two columns that fit the terminal.
class HelpFormat final : public CLI::Formatter {
 public:
  /// Without the groups of options that few need, unless `all` are asked for.
  explicit HelpFormat(bool all) : all_(all) {}

  std::string make_description(const CLI::App* app) const override {
    return wrapped_text(app->get_description(), 0, help_columns());
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return Formatter::make_usage(app, name) + "\n";
  }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    if (!all_ && group.starts_with(kRareOptions)) return "";
    std::string text = group + ":\n";
    for (const CLI::Option* option : options) text += make_option(option, is_positional);
    return text + (is_positional ? "\n" : "");  // CLI11 puts one between the groups of options
  }
  /// An option that is both, "model, --model", stands among the positionals only.
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    if (!is_positional && option->get_positional()) return "";
    std::string name = option->get_name(is_positional, true);
    if (!is_positional) name += make_option_opts(option);
    while (name.ends_with(' ')) name.pop_back();
    return described(name, option->get_description(), help_columns());
  }

 private:
  bool all_;
};

bool is_rare(const CLI::Option* option) { return option->get_group().starts_with(kRareOptions); }

void print_help(CLI::App& app, bool all) {
  app.formatter(std::make_shared<HelpFormat>(all));
  std::string text = app.help();
  // CLI11 puts a blank line after a group that was left out, too.
  for (size_t at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n")) text.erase(at, 1);
  while (text.ends_with("\n\n")) text.pop_back();
  const auto left_out = std::ranges::count_if(app.get_options(), is_rare);
  if (!all && left_out > 0)
    text += fmt::format("\n{} more options: `{} --help-all`\n", left_out, app.get_name());
  print(text);
}

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

/// "--name" or "--name=value"
std::string option_name(const std::string& arg) { return arg.substr(0, arg.find('=')); }

[[noreturn]] void refuse_option(const CLI::App& app, const std::string& arg) {
  refuse(app, unknown_name_message("option", option_name(arg), option_names(app)));
}

void refuse_unknown_options(const CLI::App& app, const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--") return;
    if (arg.starts_with("--") && app.get_option_no_throw(option_name(arg)) == nullptr)
      refuse_option(app, arg);
  }
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
  app.set_help_flag();
  app.set_help_flag("-h,--help", "print this help");  // after the options of its own
  app.set_help_all_flag("--help-all", "print help on all options")
      ->group(std::ranges::any_of(app.get_options(), is_rare) ? "Options" : "");
  if (is_describing()) {
    add_description(app);
    return false;
  }
  app.allow_extras();
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    print_help(app, false);
    return false;
  } catch (const CLI::CallForAllHelp&) {
    print_help(app, true);
    return false;
  } catch (const CLI::ParseError& error) {
    refuse_unknown_options(app, args);  // whose value may have been taken for an argument
    refuse(app, error.what());
  }
  bool options_ended = false;
  for (const std::string& extra : app.remaining()) {
    if (extra == "--" && !options_ended) {
      options_ended = true;
      continue;
    }
    if (!options_ended && extra.starts_with('-') && extra.size() > 1) refuse_option(app, extra);
    refuse(app, fmt::format("unexpected argument \"{}\"", extra));
  }
  refuse_empty_texts(app);
  return true;
}

void add_result_options(CLI::App& app, ResultOptions& options, bool draws) {
  app.add_flag("--json", options.json, "print the results as JSON (docs/results.md)");
  if (!draws) return;
  app.add_option("--report", options.report, "write a page (NAME.html) that shows the results")
      ->option_text("FILE");
  add_overwrite_option(app, options.overwrite);
}

void add_overwrite_option(CLI::App& app, bool& overwrite) {
  app.add_flag("--overwrite", overwrite, "replace a file that exists; never one that is read");
}

std::string commands_text(std::string_view headline, std::span<const Command> commands) {
  std::string text(headline);
  text += '\n';
  for (const Command& command : commands) text += described(command.name, command.help, help_columns());
  return text;
}

}  // namespace detent
