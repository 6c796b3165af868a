#!/usr/bin/env bash
# Runs clang-tidy over the source files that differ from BASE, or over all without BASE; warnings are errors.
#
#   scripts/run_clang_tidy.sh BUILD_DIR [BASE]
#
# BUILD_DIR is a build folder that clang configured. A file that is compiled together with others is checked with them.
# Files that BUILD_DIR does not compile are left out and counted. BUILD_DIR may be anywhere: clang-tidy by itself looks for
# its configuration above the file it checks, which may be a generated one.
set -euo pipefail
build=$(realpath "$1")
base=${2:-}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$build" > /dev/null
if [[ -n $base ]]; then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- '*.cc')
else
  mapfile -t files < <(git ls-files '*.cc')
fi

# "SOURCE UNIT" for each source that is compiled; what is compiled alone is its own unit.
units=$(mktemp)
trap 'rm -f "$units"' EXIT
sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1 \1/p' "$build/compile_commands.json" > "$units"
find "$build" -path '*/Unity/*.cxx' -exec awk '/^#include/ { gsub(/"/, "", $2); print $2, FILENAME }' {} + >> "$units"

checked=()
known=0
for file in "${files[@]}"; do
  unit=$(awk -v file="$PWD/$file" '$1 == file { print $2; exit }' "$units")
  [[ -n $unit ]] || continue
  known=$((known + 1))
  checked+=("$unit")
done
echo "clang-tidy: $known files, $((${#files[@]} - known)) not compiled in $build"
[[ $known -eq 0 ]] ||
  printf '%s\n' "${checked[@]}" | sort --unique | tr '\n' '\0' |
  xargs --null --max-args=1 --max-procs="$(nproc)" clang-tidy -p "$build" --quiet --warnings-as-errors='*' \
    --config-file=.clang-tidy --checks=-bugprone-suspicious-include --header-filter='/(src/detent|tests|bench|examples)/'
