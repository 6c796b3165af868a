#!/bin/sh
# Emits networks as Verilog, simulates them on a data set's test samples, and counts 6-input tables, ours and yosys's:
# no bit may differ.
#   bench/hardware.sh build/bin/detent DATASET NETWORK.mz...
set -eu
detent=$(realpath "$1")
dataset=$2
shift 2
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
for network; do
  echo "$network"
  "$detent" emit verilog "$network" -o "$directory/design" --dataset "$dataset" --simulate verilator,icarus --synthesize |
    grep -v '^|'
done
