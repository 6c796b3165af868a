#!/usr/bin/env bash
# Installs ONNX Runtime for node into a folder, by npm, unless it is there already. ORT_DIR=FOLDER in the environment
# makes the tests that need it run.
#
#   scripts/install_onnxruntime.sh FOLDER
set -euo pipefail
version=1.30.0
if [[ $# -ne 1 || $1 == -* ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  exit 2
fi
[[ ! -d $1/node_modules/onnxruntime-node ]] || exit 0
for program in node npm; do
  command -v "$program" > /dev/null || {
    echo "install_onnxruntime.sh: there is no $program, which ONNX Runtime comes with: scripts/install_packages.sh" >&2
    exit 1
  }
done
mkdir -p "$1"
cd "$1"
npm install "onnxruntime-node@$version" --ignore-scripts --no-audit --no-fund
