#!/usr/bin/env bash
# Plants one violation at a time in a small good tree: each must be found, and the good tree must pass.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
failures=0

good_tree() {
  rm -rf -- "$work/tree"
  mkdir -p "$work/tree"/src/detent/{core,formats,graph,operators/layers,autograd,passes,cli/torch}
  cd "$work/tree/src/detent"
  echo '#pragma once' > core/core.h
  printf '#include "detent/core/core.h"\nstruct Ternary {\n  static constexpr const char* kName = "ternary";\n' > formats/ternary.h
  printf '#include <hwy/highway.h>\n#include "hwy/foreach_target.h"\n' > formats/kernels-inl.h
  printf 'bool same(auto name) { return name == "ternary"; }\n' > formats/names.cc
  printf '// #include "detent/cli/main.h"\n#include "detent/formats/ternary.h"\n' > graph/graph.h
  printf 'TEST(Graph, Name) { ASSERT_TRUE(name == "ternary"); }\n' > graph/graph_test.cc
  printf 'if (node.op == other.op && kept.contains(node.op_count)) node.op = "relu";\n' > graph/builder.cc
  printf 'bool is_first(const Node& node) { return node.op == "conv2d"; }\n' > operators/layers/schema.cc
  printf '  return {{"relu", evaluate_relu},\n          {"conv2d", evaluate<at::conv2d, 2>}};\n' \
    > operators/layers/autograd.cc
  printf '#include <ATen/core/Tensor.h>\n#include "detent/graph/graph.h"\n' > autograd/interpreter.h
  echo '#include "detent/engine/fast_executor.h"' > passes/gptq_test.cc
  printf '#include <torch/torch.h>\n#include "detent/autograd/interpreter.h"\n' > cli/torch/train.cc
}

# expect CHECK STATUS TEXT: the exit status of the check, and what it must have printed.
expect() {
  local output status=0
  output=$("$repository/scripts/check_$1.sh" "$work/tree" 2>&1) || status=$?
  if [[ $status -ne $2 || $output != *"$3"* ]]; then
    printf 'FAILED: check_%s.sh: status %d (expected %d), expected "%s" in:\n%s\n' "$1" "$status" "$2" "$3" "$output"
    failures=$((failures + 1))
  fi
}

# bad CHECK FILE LINE TEXT: the check must fail on a tree where FILE also has LINE.
bad() {
  good_tree
  mkdir -p "$(dirname "$2")"
  printf '%s\n' "$3" >> "$2"
  expect "$1" 1 "$4"
}

good_tree
expect layers 0 ""
expect style 0 ""

bad layers core/core.h '#include "detent/graph/graph.h"' 'core.h:2: layer core may not include graph'
bad layers graph/graph_test.cc '  #  include "detent/autograd/interpreter.h"' 'layer graph may not include autograd'
bad layers passes/gptq.cc '#include "detent/engine/fast_executor.h"' 'layer passes may not include engine'
bad layers passes/gptq_test.cc '#include "detent/training/trainer.h"' 'layer passes may not include training'
bad layers graph/graph.h '#include "../autograd/interpreter.h"' 'by its path from src'
bad layers graph/graph.h '#include <c10/util/Half.h>' 'may include libtorch'
bad layers cli/main.cc '#include <torch/torch.h>' 'may include libtorch'
bad layers graph/graph.cc '  fmt::print(stderr, "here");' 'layer graph prints'
bad layers core/core.cc '  std::fprintf(stderr, "%d", x);' 'layer core prints'
bad layers operators/layers/schema.cc '#include "detent/operators/layers/autograd.h"' 'layer graph may not include autograd'
bad layers operators/layers/float32.cc '#include <torch/torch.h>' 'may include libtorch'
bad layers operators/layers/evaluator.cc '#pragma once' 'layer operators is not in the table'
bad layers engines/engine.h '#pragma once' 'layer engines is not in the table'
# shellcheck disable=SC2016  # Markdown, not command substitution
bad layers ../../docs/design.md '| `graph` | networks | core |' 'graph may include "core, formats, kernels"'
# shellcheck disable=SC2016
bad layers ../../docs/design.md '| `core` | errors | - |' 'no row for layer'

for beginning in Of What Those; do
  bad style core/core.h "/// $beginning the last one." 'core.h:2: begin the comment with the thing that it describes'
done
bad style graph/graph.cc 'if (name == "ternary") {}' 'graph.cc:1: no comparison with the name of a format'
bad style graph/graph.cc 'if ("ternary" != name) {}' 'no comparison with the name of a format'
bad style graph/graph.cc 'if (std::get_if<Ternary>(&format)) {}' 'no format by its type outside formats/'
for line in 'if (node.op == "conv2d") {}' 'if ("conv2d" != graph.node(name).op) {}' 'return op == "anything";' \
  'bool pools = node->op.starts_with("max_");' 'if (node.op.find("pool") != npos) {}' \
  'std::ranges::find(kLayers, node.op) != kLayers.end()' 'if (kLayers.contains(layer->op)) {}' \
  'constexpr std::array kLayers = {"conv2d", "relu"};'; do
  bad style autograd/interpreter.cc "$line" 'interpreter.cc:1: no comparison with the name of an operator'
done
bad style graph/graph.cc $'#include "detent/graph/b.h"\n#include "detent/graph/a.h"' \
  'graph.cc:2: sort includes: this one before "detent/graph/b.h"'
bad style graph/graph.cc "$(seq 801)" 'more than 800 lines'
bad style graph/utils/text.cc '' 'name the folder after what is in it'
bad style formats/ternary.h '#include <hwy/highway.h>' 'no Highway in a header'
bad style graph/graph.h '#include <ATen/core/Tensor.h>' 'no libtorch in a header'
bad style autograd/interpreter.h '#include <torch/torch.h>' 'no torch/torch.h in a header'
printf -v two_types 'namespace detent {\nstruct Ternary {\n};\n}\nnamespace detent {\nclass Ternary final : public X {\n};'
bad style graph/types.h "$two_types" 'a second type detent::Ternary, after'

good_tree
for i in $(seq 121); do echo '#pragma once' > "core/part_$i.h"; done
expect style 1 'files under 40 lines, at most 120'

[[ $failures -eq 0 ]] && echo "all checks find what they must"
exit $((failures > 0))
