#!/bin/sh
# Time and peak memory of quantizing resnet20, with the published weights and 1,024 images of CIFAR-10, in each of
# the ways of docs/quantization.md's table, and what each leaves of the 10,000 test images:
#   bench/quantize_resnet20.sh build/bin/detent resnet20-12fca82f.th DATA_FOLDER [WAY...]
# WAY: 8/8, 4/8, 4/4, 3/8 (weights/activations), to nearest, or after it -bias (with bias_correction alone), -gptq, -gptaq or
# -adaround; default all. The time includes two
# evaluations on the test images.
set -eu
detent=$(realpath "$1")
weights=$(realpath "$2")
data=$(realpath "$3")
shift 3
[ $# -gt 0 ] || set -- 8/8 4/8 4/4 3/8 \
  4/8-bias 4/4-bias 3/8-bias 4/8-gptq 4/8-gptaq 4/8-adaround 4/4-gptq 4/4-gptaq 4/4-adaround 3/8-gptq 3/8-gptaq 3/8-adaround
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

echo "| weights/activations | correct of 10,000 | seconds | peak MB |"
echo "|---|---:|---:|---:|"
for way in "$@"; do
  bits=${way%%-*}
  improve="--improve none"
  case $way in
    *-bias) improve="--improve bias_correction" ;;
    *-*) improve="--improve ${way#*-},bias_correction" ;;
  esac
  begin=$(date +%s)
  # shellcheck disable=SC2086  # $improve is two words or none
  "$detent" quantize resnet20 cifar10 --load "$weights" --load-type pt --data-dir "$data" --calibrator mse \
    --project "$(echo "$way" | tr / -)" --weights "int${bits%/*}" --activations "uint${bits#*/}" $improve > log 2>&1 &
  process=$!
  peak=0
  while kill -0 "$process" 2> /dev/null; do
    now=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$process/status" 2> /dev/null || true)
    [ "${now:-0}" -le "$peak" ] || peak=$now
    sleep 0.1
  done
  wait "$process" || { cat log; exit 1; }
  correct=$(sed -n 's/^test after:.*(\([0-9]*\).*/\1/p' log)
  echo "| $way | $correct | $(($(date +%s) - begin)) | $((peak / 1024)) |"
done
