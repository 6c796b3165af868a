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

/// The weight of a layer that folds the norm after it.
Tensor scaled_weight(const Node& layer, const ChannelMap& map);
/// The bias of a layer that folds the norm after it; all 0 before where it has none.
Tensor moved_bias(const Node& layer, const ChannelMap& map);
/// Puts it in the place of the layer's, or adds it.
void set_bias(Node& layer, Tensor bias);

/// Why the layer cannot take up the norm that follows it, whose input has this rank; "" when it can.
std::string folding_obstacle(const Node& layer, const Node& norm, size_t layer_rank, size_t readers);

/// That of its weights; kNo where these are not quantized.
NormFolding norm_folding(const Node& layer);
/// Whether any layer folds one.
bool folds_norms(const Graph& graph);

/// The norm after `layer`, when that can take it up: the layer's only reader, and nothing between them is
/// rounded. nullptr otherwise.
const Node* foldable_norm(const Graph& graph, const Node& layer);
/// The norm that the layer takes up; nullptr where it takes up none. Throws Error where there is none to take
/// up.
const Node* folded_norm(const Graph& graph, const Node& layer);

/// Lets the layers take up their norms for good, with the running statistics. In the place of the norms
/// there are identities.
void fold_trained_norms(Graph& graph);

}  // namespace detent
