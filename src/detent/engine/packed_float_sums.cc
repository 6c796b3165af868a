#include "detent/engine/packed_float_sums.h"

#include <algorithm>
#include <cmath>

#include "detent/graph/accumulator.h"
#include "detent/graph/connections.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_node.h"
#include "detent/inference/float_nodes.h"
#include "detent/kernels/normalization.h"

namespace detent {
namespace {

constexpr int64_t kMostBlocks = 2;  // that a kernel computes at once

size_t filled_up(int64_t outputs) {
  return static_cast<size_t>((outputs + kSumOutputs - 1) / kSumOutputs * kSumOutputs);
}

/// Cuts the outputs of each group into blocks.
void add_blocks(PackedFloatSums& packed, int64_t groups) {
  const int64_t of_group = packed.outputs / groups;
  const int64_t depth = packed.depth();
  size_t weights = 0;
  size_t start = 0;
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t first = 0; first < of_group;) {
      const int64_t left = of_group - first;
      const int64_t blocks = std::min(kMostBlocks, (left + kSumOutputs - 1) / kSumOutputs);
      const int64_t outputs = std::min(left, blocks * kSumOutputs);
      packed.blocks.push_back(
          {group * of_group + first, outputs, blocks, group * packed.channels, weights, start});
      weights += static_cast<size_t>(depth * blocks * kSumOutputs);
      start += static_cast<size_t>(blocks * kSumOutputs);
      first += outputs;
    }
  }
  packed.weights = AlignedArray<float>::unfilled(weights);
  packed.start.assign(start, 0);
}

/// [output][depth] to [depth][outputs of the block].
void pack_block(const PackedFloatBlock& block, int64_t depth, const float* from, float* to) {
  const int64_t width = block.blocks * kSumOutputs;
  for (int64_t k = 0; k < depth; ++k, to += width) {
    for (int64_t o = 0; o < block.outputs; ++o) to[o] = from[(block.first_output + o) * depth + k];
    std::fill(to + block.outputs, to + width, 0.0F);
  }
}

void pack_float_depthwise(PackedFloatSums& packed, const float* from) {
  const size_t width = filled_up(packed.outputs);
  const auto taps = static_cast<size_t>(packed.window.positions());
  packed.weights = AlignedArray<float>(taps * width);
  packed.start.assign(width, 0);
  for (size_t tap = 0; tap < taps; ++tap) {
    for (size_t c = 0; c < static_cast<size_t>(packed.outputs); ++c)
      packed.weights.data()[tap * width + c] = from[c * taps + tap];
  }
}

}  // namespace

bool has_float_places(const ReferenceStep& step) {
  const auto has_no_place = [](const std::optional<CodeType>& type) {
    return type && (type->is_sign || (!fits_bytes(*type) && !is_wide(*type)));
  };
  return std::ranges::none_of(step.inputs, has_no_place) && std::ranges::none_of(step.outputs, has_no_place);
}

PackedFloatSums packed_float_windows(const Tensor& weight, std::span<const float> bias,
                                     const FloatWindowLayer& layer) {
  PackedFloatSums packed{.window = layer.window,
                         .is_linear = layer.is_linear,
                         .outputs = weight.dim(0),
                         .channels = weight.dim(1)};
  const float* const values = weight.values<float>().data();
  packed.depthwise =
      layer.may_be_depthwise && layer.groups > 1 && packed.channels == 1 && packed.outputs == layer.groups;
  if (packed.depthwise) {
    pack_float_depthwise(packed, values);
    std::ranges::copy(bias, packed.start.begin());
    return packed;
  }
  add_blocks(packed, layer.groups);
  if (packed.is_linear && !bias.empty()) packed.bias.assign(packed.start.size(), 0);
  std::vector<float>& to = packed.is_linear ? packed.bias : packed.start;
  for (const PackedFloatBlock& block : packed.blocks) {
    pack_block(block, packed.depth(), values, packed.weights.data() + block.weights);
    if (bias.empty()) continue;
    std::copy_n(bias.data() + block.first_output, block.outputs,
                to.data() + static_cast<std::ptrdiff_t>(block.start));
  }
  return packed;
}

std::optional<PackedFloatSums> packed_float_sums(const ReferenceStep& step) {
  const Node& node = *step.node;
  const auto* layer = trait<WeightedSum>(node);
  const bool is_known = layer != nullptr && find_float_operator(node.op) != nullptr;
  if (!is_known || layer->transposed || layer->spatial_dims > 3 || !has_float_places(step) ||
      accumulator_of(node))
    return std::nullopt;
  const NamedTensors parameters = rounded_parameters(node);
  const FloatNode operands{node, {}, parameters};
  const Tensor weight = *operands.parameter("weight");
  if (weight.numel() == 0 || ordered_connections(node, weight)) return std::nullopt;
  const bool is_linear = layer->spatial_dims == 0;
  return packed_float_windows(weight, operands.values_of("bias"),
                              {.window = window_shape(node),
                               .groups = is_linear ? 1 : integer_attribute(node, "groups"),
                               .is_linear = is_linear,
                               .may_be_depthwise = true});
}

Tensor unpacked_weight(const PackedFloatSums& packed, const Shape& shape) {
  Tensor weight(DType::kFloat32, shape);
  float* const to = weight.values<float>().data();
  const int64_t depth = packed.depth();
  const float* const from = packed.weights.data();
  if (packed.depthwise) {
    const int64_t width = std::ssize(packed.start);
    for (int64_t i = 0; i < weight.numel(); ++i) to[i] = from[i % depth * width + i / depth];
    return weight;
  }
  for (const PackedFloatBlock& block : packed.blocks) {
    const float* of_input = from + block.weights;
    for (int64_t k = 0; k < depth; ++k, of_input += block.blocks * kSumOutputs) {
      for (int64_t o = 0; o < block.outputs; ++o) to[(block.first_output + o) * depth + k] = of_input[o];
    }
  }
  return weight;
}

FloatChannelMap float_channel_map(const Node& batch_norm) {
  const NamedTensors parameters = rounded_parameters(batch_norm);
  const FloatNode operands{batch_norm, {}, parameters};
  const std::span<const float> mean = operands.values_of("running_mean");
  const ChannelNorm norm{.channels = std::ssize(mean),
                         .positions = 1,
                         .groups = 1,
                         .weight = operands.values_of("weight"),
                         .bias = operands.values_of("bias"),
                         .eps = number_attribute(batch_norm, "eps")};
  // Blocks of groups begin at any output.
  const auto width = static_cast<size_t>(norm.channels + kMostBlocks * kSumOutputs);
  FloatChannelMap map{std::vector<float>(width), std::vector<float>(width)};
  for (size_t c = 0; c < mean.size(); ++c) {
    const ScaleAndShift of = batch_norm_map(norm, mean, operands.values_of("running_var"), c);
    map.scale[c] = of.scale;
    map.shift[c] = of.shift;
  }
  return map;
}

bool ignores_zeros(std::span<const float> weights, std::span<const float> starts) {
  const auto is_finite = [](float weight) { return std::isfinite(weight); };
  const auto is_minus_zero = [](float start) { return start == 0 && std::signbit(start); };
  return std::ranges::all_of(weights, is_finite) && std::ranges::none_of(starts, is_minus_zero);
}

}  // namespace detent
