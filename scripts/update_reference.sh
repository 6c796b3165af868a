#!/usr/bin/env bash
# Writes docs/commands.md and docs/passes.md from the program's help, or with --check compares them.
#   scripts/update_reference.sh PROGRAM [--check]
set -euo pipefail
program=${1:?the program, as build/bin/detent}
check=${2:-}
documents=$(cd "$(dirname "${BASH_SOURCE[0]}")/../docs" && pwd)
unset COLUMNS
export NO_COLOR=1

# Prints an option once: where an earlier section has it with the same text, only its name and that section.
refer_to_earlier() {
  awk '
    function end_option() {
      if (option == "") return
      name = option
      sub(/^ +/, "", name)
      sub(/[ =\n].*/, "", name)
      if (name == "-h,--help" || name == "--help-all") {
      } else if (option in first && first[option] != section) {
        if (!(first[option] in named)) order[++origins] = first[option]
        named[first[option]] = named[first[option]] ", " name
      } else {
        first[option] = section
        own = own option
      }
      option = ""
    }
    function end_group(  i, line, words, n, k) {
      end_option()
      if (group != "" && own == "" && origins == 0) group = ""
      if (group != "") printf "%s%s", group, own
      for (i = 1; i <= origins; ++i) {
        n = split(indent "as in " order[i] ":" substr(named[order[i]], 2), words, " ")
        line = indent words[1]
        for (k = 2; k <= n; ++k) {
          if (length(line " " words[k]) > 80) { print line; line = indent "   " }
          line = line " " words[k]
        }
        print line
      }
      group = own = ""
      origins = 0
      delete named
    }
    /^##+ / { section = $NF; in_text = 0 }
    /^```/ { end_group(); in_text = $0 == "```text" }
    /^(  )?[A-Z][A-Za-z: ]*:$/ && in_text {
      end_group()
      group = $0 "\n"
      indent = $0 ~ /^  / ? "    " : "  "
      next
    }
    group == "" { print; next }
    /^$/ { end_group(); blank = 1; print; next }
    /^          / { option = option $0 "\n"; next }
    { end_option(); option = $0 "\n" }
  ' | cat -s | awk '/^$/ { empty = 1; next } empty && $0 !~ /^```$/ { print "" } { empty = 0; print }'
}

commands() {
  echo "# Commands"
  echo
  echo "\`detent COMMAND --help-all\` of each command; an option that commands share is explained at the first of them."
  echo "Written by \`scripts/update_reference.sh build/bin/detent\`."
  "$program" --help | awk '/^Commands:/ { inside = 1; next } inside && /^  [a-z]/ { print $1 } /^$/ { inside = 0 }' |
    while read -r command; do
      printf '\n## detent %s\n\n```text\n' "$command"
      "$program" "$command" --help-all
      echo '```'
    done | refer_to_earlier
}

topics() {
  printf '\n## %s\n' "$1"
  "$program" list "$2" | awk '/^[a-z][a-z0-9_]*( \(.*\))?$/ { print $1 }' |
    while read -r name; do
      printf '\n### %s\n\n```text\n' "$name"
      "$program" list "$2" "$name"
      echo '```'
    done | refer_to_earlier
}

passes() {
  echo "# Passes and statistics"
  echo
  echo "The keys of \`[passes.NAME]\` and of statistics in configuration files, as \`detent list passes NAME\` prints them; a"
  echo "key that passes share is explained at the first of them. Written by \`scripts/update_reference.sh build/bin/detent\`."
  topics Passes passes
  topics Statistics statistics
}

status=0
for page in commands passes; do
  text=$("$page")
  if [[ -z $check ]]; then
    printf '%s\n' "$text" > "$documents/$page.md"
  elif ! diff <(printf '%s\n' "$text") "$documents/$page.md" > /dev/null; then
    echo "docs/$page.md is not what $program says: run scripts/update_reference.sh $program" >&2
    diff <(printf '%s\n' "$text") "$documents/$page.md" | head -n 20 >&2 || true
    status=1
  fi
done
exit $status
