#!/usr/bin/env bash
# Runs a model in Detent and in ONNX Runtime, with its graph optimizations off and on, and compares the outputs.
#
#   scripts/compare_with_onnxruntime.sh FOLDER MODEL.onnx [NAME=INPUT.npy]...
#
# FOLDER is where the package onnxruntime-node is, or is installed to by npm; ORT_DIR=FOLDER in the environment makes
# the tests that need it run. Inputs that are not given are zeros, which both must then agree on, so give all that the
# model has. DETENT is the program (default: the one in PATH); RTOL and ATOL are tolerances (default 1e-4 and 1e-4).
# Exits with 1 where outputs differ by more.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  exit 2
fi
folder=$1
model=$2
shift 2
scripts=$(cd "$(dirname "$0")" && pwd)
"$scripts/install_onnxruntime.sh" "$folder"
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
inputs=()
for input in "$@"; do inputs+=(--input "$input"); done
status=0
for way in --no-optimization --optimization; do
  rm -rf "$results"/*
  compared=()
  while IFS= read -r output; do compared+=(--compare "$output"); done < <(
    ORT_DIR=$folder node "$scripts/run_onnxruntime.mjs" "$model" "$results" "$way" "$@")
  echo "ONNX Runtime, $way:"
  "${DETENT:-detent}" run "$model" "${inputs[@]}" "${compared[@]}" --rtol "${RTOL:-1e-4}" --atol "${ATOL:-1e-4}" || status=1
done
exit $status
