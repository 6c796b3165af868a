#!/bin/sh
# What a LogicNet classifies and how large it is: trained, made truth tables, and executed in integers.
#   bench/logicnets.sh build/bin/detent digits
#   bench/logicnets.sh build/bin/detent mnist DATA_FOLDER [OPTION OF detent train...]
# Where the variable TABLES is set, the network of tables is copied there, for bench/hardware.sh.
# docs/lut_networks.md has the results.
set -eu
detent=$(realpath "$1")
dataset=$2
configs=$(dirname "$(realpath "$0")")/../configs
shift 2
[ -z "${TABLES:-}" ] || TABLES=$(realpath "$TABLES")
model=${dataset}_logicnet
data=
if [ "$dataset" = mnist ]; then
  data="--data-dir $(realpath "$1")"
  shift
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

run() { "$detent" "$@" > log 2>&1 || { cat log; exit 1; }; }

network=detent_output/trained/software/training_ckpts/transformed_ckpt/graph_module.mz
tables=detent_output/tables/software/transform/transformed_ckpt/graph_module.mz

# shellcheck disable=SC2086  # $data is two words, or none
{
  run transform --config "$configs/$dataset/logicnet.toml" $data --project rounded
  run train --config "$configs/$dataset/logicnet_training.toml" $data --project trained \
    --load detent_output/rounded/software/transform/transformed_ckpt/graph_module.mz "$@"
  run transform --config "$configs/$dataset/logicnet_tables.toml" $data --project tables --load "$network"
  sed -n '/^logicnets_fusion/,/outputs differ/p' log
  last=$(sed -n 's/^| \(layers_[0-9]*\) .*/\1/p' log | tail -n 1)
  run test "$model" "$dataset" $data --load "$network" --dump dumped --dump-nodes x --dump-samples 10000
  echo "network: $(tail -n 1 log)"
  for engine in simulation reference fast; do
    run test "$model" "$dataset" $data --load "$tables" --engine "$engine"
    echo "tables, $engine: $(tail -n 1 log)"
    # Every result of every test vector; exits with 1 where one differs.
    run run "$tables" --input x=dumped/nodes/x.npy --compare "$last=dumped/logits.npy" --rtol 0 --atol 0 \
      --engine "$engine"
    tail -n 1 log
  done
}
[ -z "${TABLES:-}" ] || cp "$tables" "$TABLES"
