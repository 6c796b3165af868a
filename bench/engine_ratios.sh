#!/usr/bin/env bash
# How long the fast engine takes for quantized networks, as shares of what ONNX Runtime takes for the QDQ models that
# are exported from the same graphs; with FLOAT=1, for networks in float. Random weights. Both take turns; the least and
# the median of all turns count.
#
#   ORT_DIR=FOLDER bench/engine_ratios.sh BUILD_FOLDER [MODEL...]
#
# FOLDER has onnxruntime-node (npm install onnxruntime-node@1.30.0 --ignore-scripts), ORT_RUN names ort_run.mjs
# (default ../shared/tools/ort_run.mjs). THREADS ("1 2"), BATCH (1), TURNS (3) and SECONDS_EACH (2) as wanted.
set -euo pipefail
build=${1:?the build folder}
shift
models=("$@")
[[ ${#models[@]} -gt 0 ]] || models=(mnist_cnn digits_cnn resnet20 mobilenet_v2 resnet18 resnet50)
runner=${ORT_RUN:-$(dirname "${BASH_SOURCE[0]}")/../../shared/tools/ort_run.mjs}
[[ -f $runner ]] || { echo "engine_ratios.sh: no $runner: set ORT_RUN" >&2 && exit 1; }
: "${ORT_DIR:?the folder that onnxruntime-node is installed in}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
batch=${BATCH:-1}
"$build/bin/quantized_models" ${FLOAT:+--float} "$folder" "${models[@]}" > /dev/null

shape_of() {
  case $1 in
    mnist_cnn) echo "$batch,1,28,28" ;;
    digits_cnn) echo "$batch,1,8,8" ;;
    resnet20) echo "$batch,3,32,32" ;;
    *) echo "$batch,3,224,224" ;;
  esac
}

least() { sort -g | head -1; }
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

printf '%-14s %7s  %9s %9s %6s   %9s %9s %6s\n' model threads "ours min" "ORT min" share "median" "median" share
for model in "${models[@]}"; do
  for threads in ${THREADS:-1 2}; do
    rm -f "$folder"/{ours,theirs}.*
    for ((turn = 0; turn < ${TURNS:-3}; ++turn)); do
      "$build/bin/detent" bench "$folder/$model.mz" --num-threads "$threads" --batch "$batch" \
        --seconds "${SECONDS_EACH:-2}" |
        awk -F'|' 'NR == 3 { gsub(/ /, ""); print $5 >> least; print $6 >> median }' \
          least="$folder/ours.min" median="$folder/ours.median"
      runs=$(awk -v s="${SECONDS_EACH:-2}" '{ r = int(s * 1000 / $1 / 2) } END { print (r < 10 ? 10 : r) }' "$folder/ours.min")
      ORT_DIR=$ORT_DIR node "$runner" "$folder/$model.onnx" --shape "x=$(shape_of "$model")" --threads "$threads" \
        --runs "$runs" | sed -E 's/.*"min_ms":([0-9.]+),"median_ms":([0-9.]+).*/\1 \2/' |
        while read -r low middle; do
          echo "$low" >> "$folder/theirs.min"
          echo "$middle" >> "$folder/theirs.median"
        done
    done
    ours=$(least < "$folder/ours.min")
    theirs=$(least < "$folder/theirs.min")
    our_median=$(median < "$folder/ours.median")
    their_median=$(median < "$folder/theirs.median")
    awk -v m="$model" -v t="$threads" -v a="$ours" -v b="$theirs" -v c="$our_median" -v d="$their_median" \
      'BEGIN { printf "%-14s %7d  %9.3f %9.3f %6.2f   %9.3f %9.3f %6.2f\n", m, t, a, b, a / b, c, d, c / d }'
  done
done
