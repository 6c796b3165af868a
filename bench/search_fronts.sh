#!/bin/sh
# What `detent search` finds on a network, beside what one width for all weights gives, and beside random search:
#   bench/search_fronts.sh build/bin/detent MODEL DATASET PARAMETERS [TIME [OPTION...]]
#   bench/search_fronts.sh build/bin/detent resnet20 cifar10 resnet20-12fca82f.th 10m --data-dir DATA_FOLDER
# 1. Every uniform width per channel, to nearest and with the passes that the search ends with, and for each the
#    smallest network of the search that classifies at most 0.1 points of the test images fewer. The best uniform width
#    is the smallest that is within 0.5 points of float.
# 2. Fronts of SQNR and bytes for 5 seeds, with as many evaluations as random search has (EVALUATIONS, default 60).
# 3. The best network of at most 3.6 bits a weight, where BITS=3.6 is in the environment.
set -eu
detent=$(realpath "$1")
model=$2
dataset=$3
parameters=$(realpath "$4")
time=${5:-5m}
shift 4
[ $# -eq 0 ] || shift
evaluations=${EVALUATIONS:-60}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
improve=gptaq,bias_correction

fail() { cat log; exit 1; }
search() {  # PROJECT OPTION...
  project=$1
  shift
  "$detent" search "$model" "$dataset" --load "$parameters" --project "$project" "$@" > log 2>&1 || fail
}
correct() {  # FILE OPTION...
  file=$1
  shift
  "$detent" test "$model" "$dataset" --load "$file" "$@" > log 2>&1 || fail
  sed -n 's/^test:.*(\([0-9]*\)\/.*/\1/p' log
}

"$detent" test "$model" "$dataset" --load "$parameters" "$@" > log 2>&1 || fail
float=$(sed -n 's/^test:.*(\([0-9]*\)\/.*/\1/p' log)
total=$(sed -n 's/^test:.*(\([0-9]*\)\/\([0-9]*\)).*/\2/p' log)
echo "float: $float of $total"

for way in nearest improved; do
  for width in 2 3 4 5 6 7 8; do
    passes=none
    [ $way = nearest ] || passes=$improve
    set -- "$@"
    "$detent" quantize "$model" "$dataset" --load "$parameters" --project "u$width$way" --calibrator mse \
      --weights "int$width" --improve "$passes" "$@" > log 2>&1 || fail
    after=$(sed -n 's/^test after:.*(\([0-9]*\)\/.*/\1/p' log)
    bytes=$(sed -n 's/^| weights, bytes with their scales *| *[0-9]* *| *\([0-9]*\) .*/\1/p' log)
    echo "$way $width $bytes $after"
  done
done > uniform

search front --max-drop 0.5 --time "$time" --points 40 --winners 12 "$@"
for file in detent_output/front/software/search/points/*.mz; do
  bytes=$(basename "$file")
  echo "${bytes%%-*} $(correct "$file" "$@")"
done | sort -n > found
best=$(correct detent_output/front/software/search/best.mz "$@")
echo "search --max-drop 0.5 --time $time: best has $best"

awk -v float="$float" -v total="$total" '
  FILENAME == "found" { bytes[++n] = $1; correct[n] = $2; next }
  FNR == 1 {
    print "| weights | bytes | correct | smallest found within 0.1 points | correct | bytes saved |"
    print "|---|---:|---:|---:|---:|---:|"
  }
  {
    chosen = 0
    for (i = n; i >= 1; --i) if (correct[i] >= $4 - 0.001 * total && (!chosen || bytes[i] < bytes[chosen])) chosen = i
    is_best = !($1 in best) && $4 >= float - 0.005 * total
    if (is_best) best[$1] = $2
    printf "| int%d %s%s | %d | %d | %s | %s | %s |\n", $2, $1, is_best ? ", the best" : "", $3, $4,
      chosen ? bytes[chosen] : "-", chosen ? correct[chosen] : "-",
      chosen ? sprintf("%.1f %%", 100 * (1 - bytes[chosen] / $3)) : "-"
  }' found uniform

for seed in 1 2 3 4 5; do
  for strategy in random guided; do
    search "$strategy$seed" --strategy $strategy --seed $seed --evaluations "$evaluations" --quality sqnr --improve none \
      --points 1000 --max-bits 32 "$@"
  done
done
python3 - <<'EOF'
import json

def front(strategy, seed):
    with open(f"detent_output/{strategy}{seed}/software/search/search.json", encoding="utf-8") as file:
        points = json.load(file)["front"]
    return [(point["costs"]["bytes"], -float(point["quality"]["sqnr_db"])) for point in points]

def beats(a, b):
    return a[0] <= b[0] and a[1] <= b[1]

def text(point):
    return "nothing" if point is None else f"{point[0]} bytes, {-point[1]:.2f} dB"

dominated = 0
for seed in range(1, 6):
    guided, random = front("guided", seed), front("random", seed)
    left = [b for b in random if not any(beats(a, b) for a in guided)]
    lost = sum(any(beats(b, a) for b in random) for a in guided)
    dominated += not left
    print(f"seed {seed}: {len(random) - len(left)} of {len(random)} points of random search are beaten, "
          f"{lost} of {len(guided)} of guided")
    for b in left:
        below = min((a for a in guided if a[0] <= b[0]), key=lambda a: a[1], default=None)
        above = min((a for a in guided if a[1] <= b[1]), default=None)
        print(f"  not beaten: {text(b)}; guided has {text(below)} and {text(above)}")
print(f"guided search dominates random search in {dominated} of 5 seeds")
EOF

if [ -n "${BITS:-}" ]; then
  search bits --max-bits "$BITS" --time "$time" --winners 8 "$@"
  echo "at most $BITS bits a weight: $(correct detent_output/bits/software/search/best.mz "$@") of $total, float $float"
fi
