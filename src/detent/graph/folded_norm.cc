#include "detent/graph/folded_norm.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// The one node that reads the layer, once; nullptr where there are more or none.
const Node* only_reader(const Graph& graph, const Node& layer) {
  const Node* reader = nullptr;
  for (const Node& node : graph.nodes()) {
    for (const NodeInput& input : node.inputs) {
      if (input.is_constant() || input.node != layer.name) continue;
      if (reader != nullptr) return nullptr;
      reader = &node;
    }
  }
  return reader;
}

void take_up(Node& layer, Node& norm) {
  const ChannelMap map = channel_map(norm);
  Tensor bias = moved_bias(layer, map);
  layer.own_parameter("weight")->tensor = scaled_weight(layer, map);
  set_bias(layer, std::move(bias));
  QuantizerRef& weight = layer.quantization.at("weight");
  Quantizer without = *weight;
  without.norm_folding = NormFolding::kNo;
  weight = std::move(without);
  norm.op = "identity";
  norm.mase_type = find_operator(norm.op).mase_type;
  norm.parameters.clear();
  norm.attributes = Table();
}

}  // namespace

NormFolding norm_folding(const Node& layer) {
  const Quantizer* weight = layer.find_quantizer("weight");
  return weight == nullptr ? NormFolding::kNo : weight->norm_folding;
}

bool folds_norms(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const Node& node) { return norm_folding(node) != NormFolding::kNo; });
}

const Node* foldable_norm(const Graph& graph, const Node& layer) {
  if (!is_weighted_sum(layer) || layer.find_parameter("weight") == nullptr) return nullptr;
  const auto* sum = trait<WeightedSum>(layer);
  if (sum == nullptr || sum->transposed) return nullptr;
  const Node* norm = only_reader(graph, layer);
  if (norm == nullptr || !is_batch_norm(*norm) || norm->find_parameter("running_var") == nullptr)
    return nullptr;
  for (const char* operand : {"data_out_0", "bias"})
    if (layer.quantization.contains(operand)) return nullptr;
  const size_t rank = sum->spatial_dims + 2;
  return folding_obstacle(layer, *norm, rank, 1).empty() ? norm : nullptr;
}

const Node* folded_norm(const Graph& graph, const Node& layer) {
  if (norm_folding(layer) == NormFolding::kNo) return nullptr;
  if (const Node* norm = foldable_norm(graph, layer)) return norm;
  fail(
      "node \"{}\": its weights are quantized with the batch norm after it, but no batch norm alone reads it",
      layer.name);
}

void fold_trained_norms(Graph& graph) {
  for (Node& layer : graph.nodes()) {
    if (const Node* norm = folded_norm(graph, layer)) take_up(layer, graph.node(norm->name));
  }
}

}  // namespace detent
