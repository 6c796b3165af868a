#!/usr/bin/env bash
# Runs clang-tidy over the source files that differ from BASE, or over all without BASE; warnings are errors.
#
#   scripts/run_clang_tidy.sh BUILD_DIR [BASE]
#
# BUILD_DIR is a build folder that clang configured. Files that it does not compile are left out and counted.
set -euo pipefail
build=$1
base=${2:-}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$build" > /dev/null
if [[ -n $base ]]; then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- '*.cc')
else
  mapfile -t files < <(git ls-files '*.cc')
fi
known=()
for file in "${files[@]}"; do
  if grep --quiet --fixed-strings "\"$PWD/$file\"" "$build/compile_commands.json"; then known+=("$file"); fi
done
echo "clang-tidy: ${#known[@]} files, $((${#files[@]} - ${#known[@]})) not compiled in $build"
[[ ${#known[@]} -eq 0 ]] ||
  printf '%s\0' "${known[@]}" |
  xargs --null --max-args=1 --max-procs="$(nproc)" clang-tidy -p "$build" --quiet --warnings-as-errors='*'
