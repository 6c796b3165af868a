#!/bin/sh
# What only the built program can show: its exit status, its names, that it does not load libtorch.
#   program_test.sh FOLDER-OF-THE-PROGRAM SOURCES
set -eu
folder=$1
sources=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "program_test.sh: $*" >&2; exit 1; }

status=0
"$folder/detent" trian > "$work/out" 2> "$work/err" || status=$?
[ "$status" = 2 ] || fail "an unknown command ended with $status"
[ ! -s "$work/out" ] || fail "an error was printed on standard output"
grep -q '^detent: error: unknown command "trian": did you mean "train"?' "$work/err" || fail "$(cat "$work/err")"

status=0
"$folder/ch" info "$work/missing.mz" 2> /dev/null || status=$?
[ "$status" = 1 ] || fail "a missing file ended with $status"

if readelf -d "$folder/detent" | grep -q 'NEEDED.*torch'; then fail "the program is linked against libtorch"; fi
LD_DEBUG=files "$folder/detent" list > /dev/null 2> "$work/loaded"
if grep -qE 'libtorch|libc10|libdetent_torch' "$work/loaded"; then fail "\`detent list\` loads libtorch"; fi

if [ -f "$folder/../lib/detent/libdetent_torch.so" ]; then
  identity=$(grep -aoE 'detent build [0-9a-f]{64}' "$folder/detent" | head -n 1)
  other=$(printf 'detent build %064d' 0)
  mkdir "$work/mixed"
  cp "$folder/detent" "$work/mixed"
  LC_ALL=C sed "s/$identity/$other/" "$folder/../lib/detent/libdetent_torch.so" > "$work/mixed/libdetent_torch.so"
  if (cd "$work" && mixed/detent train toy_tiny toy_tiny > out 2> err); then fail "halves of two builds run together"; fi
  grep -q 'is of another build of detent (000000000000, the program is of ' "$work/err" || fail "$(cat "$work/err")"
fi

"$folder/detent" list | head -n 1 > /dev/null 2> "$work/err" || fail "a closed pipe is a failure"
[ ! -s "$work/err" ] || fail "a closed pipe: $(cat "$work/err")"

cd "$work"
cp "$sources/tests/data/stats_for_quantisation.toml" "$sources/configs/quantized_ops/toy_ternary_base.toml" .
PATH=/usr/bin:/bin "$folder/stat-to-conf.py" stats_for_quantisation.toml toy_ternary_scaled.toml --base toy_ternary_base.toml
grep -q '^weight_max = 0.099988654255867$' toy_ternary_scaled.toml || fail "stat-to-conf.py wrote something else"
