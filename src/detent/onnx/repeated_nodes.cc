#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/onnx/import_steps.h"

namespace detent {
namespace {

using Replaced =
    std::map<std::string, std::string>;  // a node's name, the earlier node that computes the same

std::vector<NodeInput> current_inputs(const Node& node, const Replaced& replaced) {
  std::vector<NodeInput> inputs = node.inputs;
  for (NodeInput& input : inputs) {
    if (const auto found = replaced.find(input.node); found != replaced.end()) input.node = found->second;
  }
  return inputs;
}

std::string key_of(const Node& node, const std::vector<NodeInput>& inputs) {
  std::string key = node.op;
  for (const NodeInput& input : inputs) key += ' ' + value_name(input);
  return key;
}

bool have_same_parameters(const Node& a, const Node& b) {
  return std::ranges::equal(a.parameters, b.parameters, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.is(other.second);
  });
}

}  // namespace

void merge_repeated_layers(Graph& graph) {
  Replaced replaced;
  bool has_layers = false;
  std::unordered_map<std::string, std::vector<const Node*>> kept;
  for (const Node& node : graph.nodes()) {
    const OperatorRole role = role_of(node);
    if (role != OperatorRole::kComputes && role != OperatorRole::kConstant) continue;
    const std::vector<NodeInput> inputs = current_inputs(node, replaced);
    std::vector<const Node*>& candidates = kept[key_of(node, inputs)];
    const auto same = std::ranges::find_if(candidates, [&](const Node* other) {
      return current_inputs(*other, replaced) == inputs && other->attributes == node.attributes &&
             other->body == node.body && have_same_parameters(*other, node) &&
             other->quantization == node.quantization;
    });
    if (same == candidates.end()) {
      candidates.push_back(&node);
      continue;
    }
    replaced.emplace(node.name, (*same)->name);
    has_layers = has_layers || is_weighted_sum(node) || trait<MatrixProduct>(node) != nullptr;
  }
  if (!has_layers) return;
  for (Node& node : graph.nodes()) node.inputs = current_inputs(node, replaced);
}

}  // namespace detent
