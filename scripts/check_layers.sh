#!/usr/bin/env bash
# Checks that the includes of src/detent point only where the table below allows, and that nobody but cli prints.
#   scripts/check_layers.sh [ROOT]
# One line a violation, as file:line: message; exit status 1 when there is any.
set -euo pipefail
root=${1:-$(dirname "${BASH_SOURCE[0]}")/..}
cd "$root"

# layer: layers it may include besides itself. A layer may only name layers above its own line: no cycles. After
# `tests` stand those that its tests may include too.
table='
core:
formats:     core
statistics:  core formats
kernels:     core tests formats
graph:       core formats kernels
inference:   core formats graph kernels
files:       core
checkpoints: core graph files tests formats
graph_files: core formats graph files checkpoints
onnx:        core formats graph kernels inference files tests graph_files models passes engine
tokenizers:  core files checkpoints
models:      core graph
datasets:    core files tests graph
evaluation:  core graph datasets
workers:     core files
autograd:    core formats statistics graph inference tests files graph_files models passes engine
reconstruction: core formats statistics graph kernels inference tests models
passes:      core formats statistics graph inference files checkpoints graph_files reconstruction tests models engine
search:      core formats statistics graph inference files graph_files reconstruction passes
hardware:    core formats graph inference tests files
engine:      core formats graph kernels inference files graph_files tests models passes
language:    core formats graph kernels inference files checkpoints graph_files engine
report:      core formats graph inference files
training:    core formats graph files datasets evaluation workers autograd engine tests models
workflows:   core formats graph inference files onnx tokenizers datasets evaluation passes search engine language report
cli:         core formats statistics graph inference files checkpoints graph_files onnx tokenizers models datasets evaluation workers autograd passes search hardware engine language report training workflows
python:      core formats graph files graph_files onnx tokenizers datasets evaluation passes search engine language report training workflows cli
'
# A family of operators has a folder in operators/; whose file it is says the beginning of its name.
operator_layers='schema=graph float32=inference onnx=onnx autograd=autograd'
# Folders that may include libtorch.
torch_folders='autograd/ training/ cli/torch/'

[[ -d src/detent ]] || { echo "check_layers.sh: no folder src/detent in $PWD" >&2 && exit 1; }
files=()
while IFS= read -r file; do files+=("$file"); done < <(find src/detent -mindepth 2 -type f \( -name '*.cc' -o -name '*.h' \) | sort)
design=()
if [[ -f docs/design.md ]]; then design=(docs/design.md); fi

awk -v table="$table" -v torch_folders="$torch_folders" -v operator_layers="$operator_layers" '
  function report(message) {
    print FILENAME ":" FNR ": " message
    failed = 1
  }
  # Layer of a file, by its path under src/detent.
  function layer_of(path, name, words, i) {
    name = path
    if (sub(/^operators\//, "", name)) {
      sub(/^.*\//, "", name)
      for (i = 1; i <= owners; i++) {
        split(owner[i], words, "=")
        if (index(name, words[1]) == 1) return words[2]
      }
      return "operators"
    }
    sub(/\/.*/, "", name)
    sub(/\.h$/, "", name)  # include/detent/engine.h, the C interface of the layer
    return name
  }
  BEGIN {
    owners = split(operator_layers, owner, " ")
    rows = split(table, row, "\n")
    for (i = 1; i <= rows; i++) {
      words = split(row[i], word, " ")
      if (words == 0) continue
      layer = word[1]
      sub(/:$/, "", layer)
      uses[layer] = ""
      for (w = 2; w <= words && word[w] != "tests"; w++) {
        if (!(word[w] in known)) { print "table: " layer " names " word[w] ", which is not above it"; failed = 1 }
        allowed[layer, word[w]] = 1
        uses[layer] = uses[layer] (w > 2 ? ", " : "") word[w]
      }
      for (w++; w <= words; w++) of_tests[layer, word[w]] = 1
      allowed[layer, layer] = 1
      known[layer] = 1
    }
    folders = split(torch_folders, torch_folder, " ")
  }

  # The table of docs/design.md says the same, in the column "may include".
  FILENAME == "docs/design.md" {
    if (split($0, cell, /[ \t]*\|[ \t]*/) < 5) next
    name = cell[2]
    if (!gsub(/`/, "", name) || !(name in known)) next
    documented[name] = 1
    if (cell[4] != (uses[name] == "" ? "-" : uses[name]))
      report(name " may include \"" uses[name] "\" by scripts/check_layers.sh, but \"" cell[4] "\" here")
    next
  }

  FNR == 1 {
    path = substr(FILENAME, length("src/detent/") + 1)
    layer = layer_of(path)
    if (!(layer in known)) report("layer " layer " is not in the table of scripts/check_layers.sh")
    is_test = path ~ /_test\.(cc|h)$/
    may_torch = 0
    for (f = 1; f <= folders; f++) if (index(path, torch_folder[f]) == 1 || layer "/" == torch_folder[f]) may_torch = 1
  }
  /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    target = $0
    sub(/^[^<"]*[<"]/, "", target)
    sub(/[>"].*/, "", target)
    if (target ~ /^detent\//) {
      other = layer_of(substr(target, length("detent/") + 1))
      if (!((layer, other) in allowed) && !(is_test && (layer, other) in of_tests))
        report("layer " layer " may not include " other " (it may: " (uses[layer] == "" ? "nothing" : uses[layer]) ")")
    } else if ($0 ~ /include[ \t]*"/ && target !~ /^hwy\//) {
      report("include \"" target "\" by its path from src: \"detent/" layer "/...\"")
    }
    if (target ~ /^(torch|ATen|c10|caffe2)\// && !may_torch)
      report("only " torch_folders " may include libtorch")
  }
  /fmt::print\(|std::(cout|cerr)|(^|[^a-z_])f?printf\(/ {
    if (layer != "cli" && FILENAME !~ /_test\.cc$/) report("layer " layer " prints: only cli does")
  }

  END {
    for (name in documented) {
      for (other in known) if (!(other in documented)) { print "docs/design.md: no row for layer " other; failed = 1 }
      break
    }
    exit failed
  }
' ${design[@]+"${design[@]}"} ${files[@]+"${files[@]}"} < /dev/null
