#!/bin/sh
# Peak memory of `detent tensor quantize`, `unpack` and `compare` on a file with one tensor of MEGABYTES (1024):
#   bench/tensor_memory.sh build/bin/detent [MEGABYTES]
# Prints what no file holds (RssAnon), which has to fit in memory; mapped files do not. Fails when that is more
# than a quarter of the tensor.
set -eu
detent=$1
megabytes=${2:-1024}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# A tensor of zeros, of which the file system stores nothing.
count=$((megabytes * 262144))
bytes=$((megabytes * 1048576))
header=$(printf '{"w":{"dtype":"F32","shape":[%d,1024],"data_offsets":[0,%d]}}' $((count / 1024)) "$bytes")
while [ $((${#header} % 8)) -ne 0 ]; do header="$header "; done
{
  # The length of the header in 8 bytes, little endian; it is below 256.
  printf "\\$(printf '%03o' ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
} > "$directory/in.safetensors"
truncate -s $((8 + ${#header} + bytes)) "$directory/in.safetensors"

failed=0
peak_of() {
  "$detent" "$@" > "$directory/log" 2>&1 &
  process=$!
  peak=0
  while kill -0 "$process" 2> /dev/null; do
    now=$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$process/status" 2> /dev/null || true)
    [ "${now:-0}" -le "$peak" ] || peak=$now
    sleep 0.01
  done
  wait "$process" || { cat "$directory/log"; exit 1; }
  echo "$((peak / 1024)) MB for a tensor of $megabytes MB: detent $*" | sed "s|$directory/||g"
  [ $((peak / 1024)) -le $((megabytes / 4)) ] || failed=1
}

for format in affine:width=8 affine:width=4,granularity=channel mx:element=e4m3 nvfp4; do
  peak_of tensor quantize "$directory/in.safetensors" -o "$directory/out.safetensors" --overwrite --format "$format"
  peak_of tensor quantize "$directory/in.safetensors" -o "$directory/packed.safetensors" --overwrite --format "$format" --packed
done
peak_of tensor unpack "$directory/packed.safetensors" -o "$directory/back.safetensors" --overwrite
peak_of tensor compare "$directory/in.safetensors" "$directory/packed.safetensors"
exit "$failed"
