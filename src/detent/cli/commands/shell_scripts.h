#pragma once

#include <string_view>

namespace detent {

// Both ask the program what may stand there, so that they fit whatever version is installed. Where it names
// nothing, the shell completes file names.

inline constexpr std::string_view kBashCompletion = R"bash(_detent_completion() {
  local word=${COMP_WORDS[COMP_CWORD]}
  local before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" complete -- "${before[@]}" 2> /dev/null)" -- "$word")
}
complete -o default -F _detent_completion detent ch
)bash";

inline constexpr std::string_view kZshCompletion = R"zsh(#compdef detent ch
local -a candidates
candidates=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT-1]}" 2> /dev/null)}")
if [[ -n ${candidates[1]} ]]; then
  compadd -- "${candidates[@]}"
  [[ ${words[CURRENT]} == -* ]] || _files
else
  _files
fi
)zsh";

}  // namespace detent
