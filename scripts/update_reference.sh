#!/usr/bin/env bash
# Writes docs/commands.md and docs/passes.md from the program's help, or with --check compares them.
#   scripts/update_reference.sh PROGRAM [--check]
set -euo pipefail
program=${1:?the program, as build/bin/detent}
check=${2:-}
documents=$(cd "$(dirname "${BASH_SOURCE[0]}")/../docs" && pwd)
unset COLUMNS
export NO_COLOR=1

# Prints an option once: where an earlier section explains the same key with the same text, only its name.
refer_to_earlier() {
  awk '
    function end_option(  name, key) {
      if (option == "") return
      name = key = option
      sub(/^ +/, "", name)
      sub(/[ =\n].*/, "", name)
      sub(/^ *[^ \n]+( VALUE| PASSES)?/, "", key)
      gsub(/"/, "", key)
      gsub(/[ \n]+/, " ", key)
      key = name key
      sub(/^--/, "", key)
      gsub(/-/, "_", key)
      if (name == "-h,--help" || name == "--help-all") {
      } else if (key in first && first[key] != section) {
        if (!(first[key] in named)) order[++origins] = first[key]
        named[first[key]] = named[first[key]] ", " name
      } else {
        first[key] = section
        own = own option
      }
      option = ""
    }
    function end_group(  i, line, words, n, k) {
      end_option()
      if (group != "" && own == "" && origins == 0) group = ""
      if (group != "") printf "%s%s", group, own
      for (i = 1; i <= origins; ++i) {
        n = split("as in " order[i] ":" substr(named[order[i]], 2), words, " ")
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
    /^##+ / { section = $0; sub(/^#+ /, "", section); sub(/ \(.*/, "", section); in_text = 0 }
    /^```/ { end_group(); in_text = $0 == "```text" }
    /^(  )?[A-Z][A-Za-z: ]*:$/ && in_text {
      end_group()
      group = $0 "\n"
      indent = $0 ~ /^  / ? "    " : "  "
      next
    }
    group == "" { print; next }
    /^$/ { end_group(); print; next }
    /^          / { option = option $0 "\n"; next }
    { end_option(); option = $0 "\n" }
  ' | awk '/^$/ { empty = 1; next } empty && $0 !~ /^```$/ { print "" } { empty = 0; print }'
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
    done
}

topics() {
  printf '\n## %s\n' "$1"
  "$program" list "$2" | awk '/^[a-z][a-z0-9_]*( \(.*\))?$/ { print $1 }' |
    while read -r name; do
      "$program" list "$2" "$name" | sed -e '1s/.*/\n### &\n\n```text/' -e 's/^  //'
      echo '```'
    done
}

passes() {
  echo "# Passes and statistics"
  echo
  echo "The keys of \`[passes.NAME]\` and of statistics in configuration files, as \`detent list passes NAME\` prints them."
  echo "A key that several share is explained at the first of them, or at the command that has it as an option."
  echo "Written by \`scripts/update_reference.sh build/bin/detent\`."
  topics Passes passes
  topics Statistics statistics
}

text=$({ commands; echo; passes; } | refer_to_earlier)
status=0
for page in commands passes; do
  part=$(awk -v page="$page" '/^# / { inside = tolower($2) == page } inside' <<< "$text")
  if [[ -z $check ]]; then
    printf '%s\n' "$part" > "$documents/$page.md"
  elif ! diff <(printf '%s\n' "$part") "$documents/$page.md" > /dev/null; then
    echo "docs/$page.md is not what $program says: run scripts/update_reference.sh $program" >&2
    diff <(printf '%s\n' "$part") "$documents/$page.md" | head -n 20 >&2 || true
    status=1
  fi
done
exit $status
