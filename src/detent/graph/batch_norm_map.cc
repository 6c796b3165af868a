#include "detent/graph/folded_norm.h"

#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {

ChannelMap channel_map(const Node& norm) {
  const auto value = [&](const char* name, size_t channel, double absent) {
    const Parameter* parameter = norm.find_parameter(name);
    return parameter == nullptr ? absent : static_cast<double>(parameter->tensor.values<float>()[channel]);
  };
  const double eps = number_attribute(norm, "eps");
  ChannelMap map;
  for (size_t c = 0; c < norm.find_parameter("running_var")->tensor.values<float>().size(); ++c) {
    map.scale.push_back(value("weight", c, 1) / std::sqrt(value("running_var", c, 0) + eps));
    map.shift.push_back(value("bias", c, 0) - value("running_mean", c, 0) * map.scale.back());
  }
  return map;
}

Tensor scaled_weight(const Node& layer, const ChannelMap& map) {
  Tensor weight = layer.find_parameter("weight")->tensor.clone();
  const std::span<float> values = weight.values<float>();
  const WeightChannels channels(layer);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<double>(values[i]) *
                                   map.scale[static_cast<size_t>(channels.output(static_cast<int64_t>(i)))]);
  }
  return weight;
}

Tensor moved_bias(const Node& layer, const ChannelMap& map) {
  Tensor bias(DType::kFloat32, {static_cast<int64_t>(map.scale.size())});
  const Parameter* old = layer.find_parameter("bias");
  for (size_t c = 0; c < map.scale.size(); ++c) {
    const double before = old == nullptr ? 0 : static_cast<double>(old->tensor.values<float>()[c]);
    bias.values<float>()[c] = static_cast<float>(before * map.scale[c] + map.shift[c]);
  }
  return bias;
}

void set_bias(Node& layer, Tensor bias) {
  if (Parameter* old = layer.own_parameter("bias")) {
    old->tensor = std::move(bias);
  } else {
    layer.parameters.emplace_back("bias", Parameter{std::move(bias), true});
  }
}

std::string folding_obstacle(const Node& layer, const Node& norm, size_t layer_rank, size_t readers) {
  if (!is_weighted_sum(layer)) {
    return fmt::format("{} is no convolution or linear layer", layer.name);
  }
  // In a tensor [N, L, C] the norm scales L, a linear layer C.
  if (channel_axis(layer, layer_rank) != channel_axis(norm, layer_rank)) {
    return fmt::format("{} is not of rank 2", layer.name);
  }
  if (readers > 1) return fmt::format("{} has other readers", layer.name);
  for (const auto& [operand, spec] : norm.quantization) {
    if (operand != "data_out_0") return fmt::format("its operand {} is quantized", operand);
  }
  return "";
}

}  // namespace detent
