#include <string_view>

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "detent/cli/command_description.h"
#include "detent/cli/commands/command.h"
#include "detent/core/error.h"

namespace detent {
namespace {

// Both ask the program what may stand there, so that they fit whatever version is installed. Where it names
// nothing, the shell completes file names.

constexpr std::string_view kBashCompletion = R"bash(_detent_completion() {
  local word=${COMP_WORDS[COMP_CWORD]}
  local before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" complete -- "${before[@]}" 2> /dev/null)" -- "$word")
}
complete -o default -F _detent_completion detent ch
)bash";

constexpr std::string_view kZshCompletion = R"zsh(#compdef detent ch
local -a candidates
candidates=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT-1]}" 2> /dev/null)}")
if [[ -n ${candidates[1]} ]]; then
  compadd -- "${candidates[@]}"
  [[ ${words[CURRENT]} == -* ]] || _files
else
  _files
fi
)zsh";

}  // namespace

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
