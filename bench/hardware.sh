#!/bin/sh
# Emits networks as Verilog, simulates them on a data set's test samples, and counts 6-input tables, ours and yosys's:
# no bit may differ.
#   bench/hardware.sh build/bin/detent DATASET NETWORK.mz...
# Data files are those of the folder $DETENT_DATA. Networks are what bench/logicnets.sh and bench/lutnet.sh leave:
#   TABLES=digits.mz bench/logicnets.sh build/bin/detent digits
# docs/hardware.md has the results. A network of 20,000 tables takes half an hour of one core, most of it yosys.
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
