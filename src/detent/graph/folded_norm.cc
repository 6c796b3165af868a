#include "detent/graph/folded_norm.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/graph/batch_norm_map.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

const Parameter* folding_parameter(const Node& layer) {
  const Quantizer* quantizer = layer.find_quantizer("weight");
  return quantizer == nullptr ? nullptr : quantizer->find_parameter(kFoldsNorm);
}

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
  layer.find_parameter("weight")->tensor = scaled_weight(layer, map);
  set_bias(layer, std::move(bias));
  QuantizerRef& weight = layer.quantization.at("weight");
  Quantizer without = *weight;
  std::erase_if(without.parameters, [](const auto& entry) { return entry.first == kFoldsNorm; });
  weight = std::move(without);
  norm.op = "identity";
  norm.mase_type = find_operator(norm.op).mase_type;
  norm.parameters.clear();
  norm.attributes = Table();
}

}  // namespace

NormFolding norm_folding(const Node& layer) {
  const Parameter* folding = folding_parameter(layer);
  if (folding == nullptr) return NormFolding::kNo;
  const float number = folding->tensor.values<float>()[0];
  for (const NormFolding kind : {NormFolding::kBatch, NormFolding::kCorrected})
    if (number == static_cast<float>(kind)) return kind;
  fail("node \"{}\": the parameter \"weight_{}\" is {}, expected 1 or 2", layer.name, kFoldsNorm, number);
}

bool folds_norms(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const Node& node) { return folding_parameter(node) != nullptr; });
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
  fail("node \"{}\": the parameter \"weight_{}\": no batch norm, which alone reads it, stands behind it",
       layer.name, kFoldsNorm);
}

void fold_trained_norms(Graph& graph) {
  for (Node& layer : graph.nodes()) {
    if (const Node* norm = folded_norm(graph, layer)) take_up(layer, graph.node(norm->name));
  }
}

}  // namespace detent
