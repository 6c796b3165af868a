#!/bin/sh
# What quantization-aware training leaves of mnist_cnn on MNIST, with the float network as teacher; a minute or two a
# quantizer:
#   bench/qat_mnist.sh build/bin/detent DATA_FOLDER [QUANTIZER...]
set -eu
detent=$(realpath "$1")
data=$(realpath "$2")
configs=$(dirname "$(realpath "$0")")/../configs
shift 2
[ $# -gt 0 ] || set -- int2_lsq ternary_a8 binary_a8 binary_residual_a8 w4a8_lsq mixed_lsq
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

correct_of() { sed -n 's/^test (best epoch):.*(\([0-9]*\).*/\1/p' log; }
train() { "$detent" train mnist_cnn mnist --data-dir "$data" "$@" > log 2>&1 || { cat log; exit 1; }; }

echo "| quantizer | correct of 10,000 |"
echo "|---|---:|"
train --config "$configs/mnist/mnist_cnn.toml" --project trained
echo "| none: float | $(correct_of) |"
trained=detent_output/trained/software/training_ckpts/best.ckpt
for quantizer in "$@"; do
  options=
  [ "$quantizer" != mixed_lsq ] || options="--width-budget 3.2 --width-penalty 3 --width-learning-rate 0.005"
  # shellcheck disable=SC2086  # $options is several words
  train --project "$quantizer" --quantize "$quantizer" --load "$trained" --teacher "$trained" --max-epochs 3 \
    --scale-learning-rate 1e-4 --learning-rate-schedule cosine_steps --validation-split test $options
  echo "| $quantizer | $(correct_of) |"
done
