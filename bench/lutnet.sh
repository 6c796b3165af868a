#!/bin/sh
# What LUTNet leaves of a network of signs on the built-in digits: the signs, tables in the place of half of their XNORs
# before and after training, and the truth tables in each execution; a minute.
#   bench/lutnet.sh build/bin/detent [OPTION OF detent train...]
# Where the variable TABLES is set, the network of truth tables is copied there, for bench/hardware.sh.
# docs/lut_networks.md has the results.
set -eu
detent=$(realpath "$1")
configs=$(dirname "$(realpath "$0")")/../configs/digits
shift
[ -z "${TABLES:-}" ] || TABLES=$(realpath "$TABLES")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

made=software/transform/transformed_ckpt/graph_module.mz
trained=software/training_ckpts/transformed_ckpt/graph_module.mz
run() { "$detent" "$@" > log 2>&1 || { cat log; exit 1; }; }
transform() { run transform --config "$configs/$1.toml" --project "$2" --load "$3"; }
train() { run train digits_lfc digits --project "$@"; sed -n "s/^test (best epoch)/$1/p" log; }

train float --max-epochs 40 "$@"
run transform --config "$configs/lutnet_parent.toml" --project rounded \
  --load detent_output/float/software/training_ckpts/best.ckpt --load-type pl
train signs --load detent_output/rounded/$made --max-epochs 60 "$@"
transform lutnet begun detent_output/signs/$trained
sed -n '/^lutnet:/p' log
run test digits_lfc digits --load detent_output/begun/$made
sed -n 's/^test:/pruned, not trained:/p' log
train tables --load detent_output/begun/$made --teacher detent_output/signs/$trained --max-epochs 40 "$@"
transform lutnet_tables finished detent_output/tables/$trained
sed -n '/^finish_lutnet/p' log
for engine in simulation reference fast; do
  run test digits_lfc digits --load detent_output/finished/$made --engine $engine
  echo "truth tables, $engine: $(tail -n 1 log)"
done
[ -z "${TABLES:-}" ] || cp detent_output/finished/$made "$TABLES"
