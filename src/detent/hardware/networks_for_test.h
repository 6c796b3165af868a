#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "detent/formats/quant_spec.h"
#include "detent/graph/builder.h"
#include "detent/graph/graph.h"
#include "detent/graph/traits.h"

namespace detent {

/// Parameters of every layer, in steps of 1/8 within [-1, 1].
inline void fill_for_test(Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters) {
      for (float& value : parameter->tensor.values<float>())
        value = (static_cast<float>(random() % 17) - 8) / 8;
    }
  }
}

/// Sets the formats of the layers' inputs and weights.
inline void quantize_for_test(Graph& graph, const std::string& inputs, const std::string& weights) {
  for (Node& node : graph.nodes()) {
    if (!is_weighted_sum(node)) continue;
    node.quantization["data_in_0"] = parse_quant_spec_text(inputs);
    node.quantization["weight"] = parse_quant_spec_text(weights);
  }
}

inline Graph linear_network_for_test() {
  GraphBuilder builder("small");
  NodeInput x = builder.linear("fc1", builder.input("x", {6}), 6, 5);
  x = builder.call("relu", {x});
  Graph graph = builder.finish(builder.linear("fc2", x, 5, 3));
  fill_for_test(graph, 1);
  return graph;
}

/// A convolution with padding and groups, a pooling, a residual sum, then a layer.
inline Graph convolution_network_for_test() {
  GraphBuilder builder("convolutions");
  NodeInput x = builder.convolution("conv1", builder.input("x", {2, 6, 6}), 2, 4, {3, 3},
                                    {{"padding", 1}, {"stride", 2}});
  x = builder.call("relu", {x});
  x = builder.layer("conv2d", "conv2", {x}, {{"weight", {4, 2, 2, 2}}, {"bias", {4}}},
                    {{"groups", 2}, {"padding", 1}});
  x = builder.module("max_pool2d", "pool", x, {{"kernel_size", 2}});
  x = builder.call("flatten", {x}, {{"start_dim", 1}});
  Graph graph = builder.finish(builder.linear("fc", x, 16, 3));
  fill_for_test(graph, 2);
  return graph;
}

}  // namespace detent
