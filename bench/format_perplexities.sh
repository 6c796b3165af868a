#!/usr/bin/env bash
# The table of docs/language_models.md: the perplexity of a language model with both operands of every product in
# formats of 8, 6, 5 and 4 bits, on the first 8 windows of 512 tokens of a text.
#   bench/format_perplexities.sh PROGRAM MODEL TEXT
set -euo pipefail
program=${1:?the program, as build/bin/detent} model=${2:?a language model} text=${3:?a text}
formats=()
# Bits, and those of the exponents of minifloats alone and in blocks.
while read -r width alone shared; do
  formats+=("fixed:width=$width" "minifloat_ieee:width=$width,exponent_width=$alone"
    "block_fp:width=$width,exponent_width=8,block_size=16")
  if [[ $width == 8 ]]; then
    formats+=("mx:element=int8")
  else
    formats+=("block_fp:width=$width,exponent_width=8,block_size=32")
  fi
  formats+=("block_minifloat:width=$width,exponent_width=$shared,exponent_bias_width=8,block_size=16"
    "block_log:width=$width,exponent_bias_width=8,block_size=16")
done <<<$'8 4 4\n6 3 3\n5 3 2\n4 2 2'
exec "$program" perplexity "$model" --text "$text" --window 512 --windows 8 --formats "${formats[@]}"
