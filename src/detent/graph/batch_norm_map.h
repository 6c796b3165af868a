#pragma once

#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// What a batch norm does in inference: y = x * scale + shift, per channel, in double.
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

}  // namespace detent
