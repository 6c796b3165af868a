#!/bin/sh
# Accuracy of LogicNets on the built-in digits against their size: a table, and a picture in logicnets_front.svg.
#   bench/logicnets_front.sh build/bin/detent [BITS:FAN_INS...]
set -eu
detent=$(realpath "$1")
configs=$(dirname "$(realpath "$0")")/../configs/digits
picture=$PWD/logicnets_front.svg
shift
[ $# -gt 0 ] || set -- 1:3,3,3,4 1:6,6,6,6 2:2,2,2,3 2:3,3,3,3 2:3,3,3,4 2:4,4,4,4
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

run() { "$detent" "$@" > log 2>&1 || { cat log; exit 1; }; }
network() { echo "detent_output/$1/software/$2/transformed_ckpt/graph_module.mz"; }

echo "| bits | fan-in | LUT6 at most | correct of 360 |"
echo "|---:|---|---:|---:|"
for point in "$@"; do
  bits=${point%%:*}
  fan_in=${point#*:}
  # Pixels go up to 1, values after a ReLU to about 2; with 1 bit both are 0 or 1.
  sed "s/data_in_width = 2/data_in_width = $bits/; s/data_in_frac_width = 2/data_in_frac_width = $bits/
    s/data_in_frac_width = 1/data_in_frac_width = $((bits - 1))/" "$configs/logicnet.toml" > rounded.toml
  run transform --config rounded.toml --project rounded --overwrite
  run train --config "$configs/logicnet_training.toml" --project trained --overwrite --fan-in "$fan_in" \
    --load "$(network rounded transform)"
  correct=$(sed -n 's/^test (best epoch):.*(\([0-9]*\).*/\1/p' log)
  run transform --config "$configs/logicnet_tables.toml" --project tables --overwrite \
    --load "$(network trained training_ckpts)"
  luts=$(sed -n 's/^logicnets_fusion:.* at most \([0-9]*\) LUTs.*/\1/p' log)
  echo "| $bits | $fan_in | $luts | $correct |"
  echo "$bits $luts $correct" >> points
done

# LUTs on a logarithmic axis from 100 to 10,000, correct images from 280 to 360.
awk 'BEGIN {
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 400\" font-family=\"sans-serif\" font-size=\"12\">"
    print "<rect width=\"640\" height=\"400\" fill=\"white\"/>"
    for (luts = 100; luts <= 10000; luts *= 10)
      printf "<text x=\"%g\" y=\"375\" text-anchor=\"middle\">%d</text>\n", x(luts), luts
    for (correct = 280; correct <= 360; correct += 20)
      printf "<text x=\"50\" y=\"%g\" text-anchor=\"end\">%d</text><path d=\"M60 %gH620\" stroke=\"#ddd\"/>\n",
        y(correct) + 4, correct, y(correct)
    print "<text x=\"340\" y=\"395\" text-anchor=\"middle\">LUTs of 6 inputs, at most</text>"
    print "<text x=\"60\" y=\"16\">correct of 360 test images; the number is bits a value</text>"
  }
  function x(luts) { return 80 + 260 * (log(luts) / log(10) - 2) }
  function y(correct) { return 350 - 4 * (correct - 280) }
  { printf "<circle cx=\"%g\" cy=\"%g\" r=\"4\"/><text x=\"%g\" y=\"%g\">%d</text>\n",
      x($2), y($3), x($2) + 7, y($3) + 4, $1 }
  END { print "</svg>" }' points > "$picture"
echo "picture: $picture"
