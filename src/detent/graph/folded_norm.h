#pragma once

#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// A batch norm in inference: y = x * scale + shift, per channel, in double.
struct ChannelMap {
  std::vector<double> scale;
  std::vector<double> shift;
};
ChannelMap channel_map(const Node& norm);

/// Weight of a layer with the following norm folded in.
Tensor scaled_weight(const Node& layer, const ChannelMap& map);
/// Bias of a layer with the following norm folded in; 0 before if it has none.
Tensor moved_bias(const Node& layer, const ChannelMap& map);
/// Replaces the layer's bias, or adds one.
void set_bias(Node& layer, Tensor bias);

/// Why the layer cannot fold the following norm, whose input has this rank; "" if it can.
std::string folding_obstacle(const Node& layer, const Node& norm, size_t layer_rank, size_t readers);

/// That of its weights; kNo where these are not quantized.
NormFolding norm_folding(const Node& layer);
/// Whether any layer folds a norm.
bool folds_norms(const Graph& graph);

/// The norm after `layer` if it can be folded: the layer's only consumer, with nothing rounded in between.
/// nullptr otherwise.
const Node* foldable_norm(const Graph& graph, const Node& layer);
/// The norm folded into the layer; nullptr if none. Throws Error if it is missing.
const Node* folded_norm(const Graph& graph, const Node& layer);

/// Folds norms for good, with the running statistics, and replaces them by identities.
void fold_trained_norms(Graph& graph);

}  // namespace detent
