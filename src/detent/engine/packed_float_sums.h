#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/engine/packed_sums.h"
#include "detent/graph/graph.h"
#include "detent/inference/recurrent_layer.h"
#include "detent/inference/reference_step.h"
#include "detent/kernels/channels_last_sums.h"

namespace detent {

/// Outputs of a float layer that are computed together.
struct PackedFloatBlock {
  int64_t first_output;
  int64_t outputs;
  int64_t blocks;         // of kSumOutputs
  int64_t first_channel;  // of its group
  size_t weights;         // offset
  size_t start;
};

/// The weights and biases of a layer in float32 in the order in which kernels read them.
struct PackedFloatSums {
  WindowShape window;
  bool is_linear = false;  // sums begin with 0, and the bias comes last
  bool depthwise = false;
  int64_t outputs = 0;
  int64_t channels = 0;  // that an output is summed over
  std::vector<PackedFloatBlock> blocks = {};
  AlignedArray<float> weights = {};  // depthwise: [tap][channels]
  std::vector<float> start = {};
  std::vector<float> bias = {};  // of a linear layer, if it has one

  /// Products that an output is the sum of.
  int64_t depth() const { return channels * window.positions(); }
};

/// nullopt where no kernel computes the step's node: other operators and layers of few connections
/// (graph/connections.h), transposed ones, and those that take or give codes which places do not have.
std::optional<PackedFloatSums> packed_float_sums(const ReferenceStep& step);

/// Weights [output, input of a group, ...]; the window says how the rest of their shape lies.
struct FloatWindowLayer {
  WindowShape window;
  int64_t groups = 1;
  bool is_linear = false;
  bool may_be_depthwise = false;
};
PackedFloatSums packed_float_windows(const Tensor& weight, std::span<const float> bias,
                                     const FloatWindowLayer& layer);

/// Whether places have what the step takes and gives: values, or codes that they can be made of.
bool has_float_places(const ReferenceStep& step);

/// Whether products with zeros leave every sum as it is: no weight is infinite or NaN, no sum begins with -0.
bool ignores_zeros(std::span<const float> weights, std::span<const float> starts);

/// The weight that was packed, rounded.
Tensor unpacked_weight(const PackedFloatSums& packed, const Shape& shape);

/// A batch norm in inference: scale and shift of each channel, padded to whole blocks of outputs.
struct FloatChannelMap {
  std::vector<float> scale;
  std::vector<float> shift;
};
FloatChannelMap float_channel_map(const Node& batch_norm);

using PackedRecurrentLayers = std::map<std::string, std::shared_ptr<const RecurrentLayer>, std::less<>>;

/// The recurrent layers of a plan whose weights are tensors that the network owns, by node, as their
/// quantizers leave them; none that take or give codes which places do not have.
PackedRecurrentLayers packed_recurrent_layers(const ReferencePlan& plan);

}  // namespace detent
