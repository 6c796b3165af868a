#!/bin/sh
# What quantization-aware training leaves of digits_cnn on the built-in digits, with the float network as teacher; half a
# minute a quantizer:
#   bench/qat_digits.sh build/bin/detent [QUANTIZER...]
set -eu
detent=$(realpath "$1")
configs=$(dirname "$(realpath "$0")")/../configs
shift
[ $# -gt 0 ] || set -- int2_lsq ternary_a8_lsq ternary_a8 binary_a8 binary_residual_a8 int4_pact int4_pot int8_log uint8_shifted int4_stochastic w4a8_learned_rounding int4_dorefa codebook4_a8 fp4_learned_bias mixed_lsq
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

correct_of() { sed -n 's/^test (best epoch):.*(\([0-9]*\).*/\1/p' log; }
train() { "$detent" train digits_cnn digits "$@" > log 2>&1 || { cat log; exit 1; }; }

echo "| quantizer | correct of 360 |"
echo "|---|---:|"
train --max-epochs 20 --project trained
echo "| none: float | $(correct_of) |"
trained=detent_output/trained/software/training_ckpts/best.ckpt
for quantizer in "$@"; do
  options="--max-epochs 20"
  [ "$quantizer" != mixed_lsq ] || options="--config $configs/digits/learned_widths.toml"
  # shellcheck disable=SC2086  # $options is two words
  train --project "$quantizer" --quantize "$quantizer" --load "$trained" --teacher "$trained" $options
  echo "| $quantizer | $(correct_of) |"
done
