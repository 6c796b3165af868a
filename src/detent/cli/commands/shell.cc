#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/commands/shell_scripts.h"
#include "detent/cli/completion.h"
#include "detent/core/error.h"

namespace detent {

int run_completion(const std::vector<std::string>& args) {
  CLI::App app(
      "Print what makes a shell complete commands, options and their values: `source <(detent completion "
      "bash)`, or "
      "`detent completion zsh > _detent` in a folder of $fpath.",
      "detent completion");
  std::string shell;
  app.add_option("shell", shell, "(one of bash, zsh)")->required()->option_text(" ");
  if (!parse_arguments(app, args)) return 0;
  if (shell == "bash") {
    print(kBashCompletion);
  } else if (shell == "zsh") {
    print(kZshCompletion);
  } else {
    throw UsageError(unknown_name_message("shell", shell, std::vector<std::string>{"bash", "zsh"}));
  }
  return 0;
}

int run_man(const std::vector<std::string>& args) {
  CLI::App app("Print the manual page: `detent man | man -l -`.", "detent man");
  if (!parse_arguments(app, args)) return 0;
  print(manual_page(describe(all_commands())));
  return 0;
}

int run_complete(const std::vector<std::string>& args) {
  std::vector<std::string> words = args;
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  std::string text;
  for (const std::string& word : completions(describe(all_commands()), words)) text += word + "\n";
  print(text);
  return 0;
}

}  // namespace detent
