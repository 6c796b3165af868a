#!/usr/bin/env bash
# Writes docs/commands.md and docs/passes.md from what the program says of itself, or with --check compares them.
#   scripts/update_reference.sh PROGRAM [--check]
set -euo pipefail
program=${1:?the program, as build/bin/detent}
check=${2:-}
documents=$(cd "$(dirname "${BASH_SOURCE[0]}")/../docs" && pwd)
unset COLUMNS
export NO_COLOR=1

commands() {
  echo "# Commands"
  echo
  echo "What \`detent COMMAND --help-all\` prints. This page is written by \`scripts/update_reference.sh build/bin/detent\`."
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
      printf '\n### %s\n\n```text\n' "$name"
      "$program" help "$name"
      echo '```'
    done
}

passes() {
  echo "# Passes and statistics"
  echo
  echo "What \`detent help NAME\` prints: the keys of \`[passes.NAME]\` and of statistics in configuration files. This page is"
  echo "written by \`scripts/update_reference.sh build/bin/detent\`."
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
