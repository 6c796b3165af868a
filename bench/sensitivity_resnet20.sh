#!/bin/sh
# Whether the ranking of `detent quantize` tells which layers to give more bits: quantizes resnet20 with the published
# weights, then again once for each layer with 8 bits for that layer alone, and prints what each wins on the 10,000 test
# images beside the output gain of the layer-wise error analysis, with Spearman's rank correlation of the two:
#   bench/sensitivity_resnet20.sh build/bin/detent resnet20-12fca82f.th DATA_FOLDER [WEIGHTS/ACTIVATIONS [OPTION...]]
# Default 3/8. Takes a run of `detent quantize` for each of the 20 layers.
set -eu
detent=$(realpath "$1")
weights=$(realpath "$2")
data=$(realpath "$3")
way=${4:-3/8}
shift 3
[ $# -eq 0 ] || shift
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

quantize() {
  "$detent" quantize resnet20 cifar10 --load "$weights" --load-type pt --data-dir "$data" --calibrator mse \
    --weights "int${way%/*}" --activations "uint${way#*/}" --project "$@" > log 2>&1 || { cat log; exit 1; }
  sed -n 's/^test after:.*(\([0-9]*\).*/\1/p' log
}

base=$(quantize base "$@")
# of the nodes with weights
awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i }
  NR > 1 && $column["SQNR weight"] != "" { print $1, $column["output gain"], $column["SQNR alone"] }' \
  detent_output/base/software/quantize/layerwise_error.csv > predicted
echo "correct of 10,000 with $way bits: $base"
while read -r node gain sqnr; do
  correct=$(quantize "$node" --bits "$node=8/8" "$@")
  echo "$node $gain $sqnr $((correct - base))"
done < predicted > measured

sort -k 2,2gr measured | awk '
  BEGIN { print "| layer | output gain, dB | SQNR alone, dB | won with 8 bits |\n|---|---:|---:|---:|" }
  { print "| " $1 " | " $2 " | " $3 " | " $4 " |" }'
awk '
  function rank(value, i, j, below, same) {  # of value[i], ties in the middle
    for (i = 1; i <= NR; ++i) {
      below = same = 0
      for (j = 1; j <= NR; ++j) {
        below += value[j] < value[i]
        same += value[j] == value[i]
      }
      place[i] = below + (same + 1) / 2
    }
  }
  function correlation(a, b, i, x, y, xy, xx, yy) {
    rank(a); for (i = 1; i <= NR; ++i) first[i] = place[i] - (NR + 1) / 2
    rank(b); for (i = 1; i <= NR; ++i) { x = first[i]; y = place[i] - (NR + 1) / 2; xy += x * y; xx += x * x; yy += y * y }
    return xy / sqrt(xx * yy)
  }
  { gain[NR] = $2; loss[NR] = -$3; won[NR] = $4 }
  END {
    printf "rank correlation with what was won: %.2f; of the SQNR of the layer alone: %.2f\n",
      correlation(gain, won), correlation(loss, won)
  }' measured
