#!/bin/sh
# What quantization-aware training leaves of resnet20 on CIFAR-10, from the published weights, with one batch of
# 10,000 training images and the float network as teacher:
#   bench/qat_resnet20.sh build/bin/detent resnet20-12fca82f.th DATA_FOLDER [QUANTIZER:EPOCHS...]
# 1,000 of the images are held out to choose the epoch; the test images are only looked at in the end. A training that
# was interrupted goes on when the same command is given again.
set -eu
detent=$(realpath "$1")
weights=$(realpath "$2")
data=$(realpath "$3")
shift 3
[ $# -gt 0 ] || set -- int4_log:20 int3_log:12 int2_log:40
rate() { case $1 in int2*) echo 1e-3 ;; int3*) echo 5e-4 ;; *) echo 3e-4 ;; esac; }  # less for what is nearly right
# What 3 and 4 bits can follow the teacher in: the sums of its blocks, beside the logits.
inner="--distill-nodes add,add_1,add_2,add_3,add_4,add_5,add_6,add_7,add_8 --distill-nodes-weight 4 --reestimate-batch-norm 30"
inner_of() { case $1 in int2*) ;; *) echo "$inner" ;; esac; }

echo "| quantizer | epochs | correct of 10,000 |"
echo "|---|---:|---:|"
for run in "$@"; do
  quantizer=${run%:*}
  epochs=${run#*:}
  project=qat_resnet20_$quantizer
  again=
  [ ! -f "detent_output/$project/software/training_ckpts/training_state.safetensors" ] || again=--resume
  # shellcheck disable=SC2046,SC2086  # one word each, or none
  "$detent" train resnet20 cifar10 --load "$weights" --load-type pt --data-dir "$data" --project "$project" \
    --quantize "$quantizer" --teacher "$weights" --distill-weight 1 --max-epochs "$epochs" \
    --learning-rate "$(rate "$quantizer")" --scale-learning-rate 1e-3 --learning-rate-schedule cosine_steps \
    --batch-size 64 --ema-decay 0.99 --random-crop --center-crop 32 --crop-padding 4 --horizontal-flip 0.5 \
    --monitor accuracy $(inner_of "$quantizer") $again > "$project.log" 2>&1 || { cat "$project.log"; exit 1; }
  correct=$(sed -n 's/^test (best epoch):.*(\([0-9]*\).*/\1/p' "$project.log")
  echo "| $quantizer | $epochs | $correct |"
done
