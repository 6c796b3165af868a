#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// Builds a network in the order of its forward pass, with the node names of PyTorch's FX tracer: module
/// "seq_blocks.0" becomes node "seq_blocks_0", the second call of relu "relu_1". Parameters begin as zeros or
/// the operator's constant; autograd/initialize.h fills them.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name) : graph_(std::move(name)) {}

  /// `shape` without the batch dimension.
  NodeInput input(const std::string& name, const Shape& shape);
  NodeInput input(const std::string& name, TensorType type);
  /// A plain function or method; integers among the inputs are constants.
  NodeInput call(const std::string& op, std::vector<NodeInput> inputs, Table attributes = {});
  /// A module without parameters, such as nn.ReLU; it may be reused.
  NodeInput module(const std::string& op, const std::string& target, NodeInput input, Table attributes = {});
  NodeInput linear(const std::string& target, NodeInput input, int64_t in, int64_t out, bool bias = true);
  /// `kernel` per dimension: one entry for conv1d, two for conv2d.
  NodeInput convolution(const std::string& target, NodeInput input, int64_t in, int64_t out,
                        const Shape& kernel, Table attributes = {}, bool bias = true);
  /// A module with parameters of these shapes, in the operator's order.
  NodeInput layer(const std::string& op, const std::string& target, std::vector<NodeInput> inputs,
                  const std::vector<std::pair<std::string, Shape>>& parameters, Table attributes = {});
  /// A tensor of the network, named `target` in the state_dict.
  NodeInput parameter(const std::string& target, const Shape& shape);
  NodeInput batch_norm(const std::string& op, const std::string& target, NodeInput input, int64_t channels,
                       Table attributes = {});

  /// As `layer`, with the tied parameter of an earlier module.
  NodeInput tied_layer(const std::string& op, const std::string& target, std::vector<NodeInput> inputs,
                       const std::string& parameter, const NodeInput& owner);
  /// Appends the output node, verifies the graph and returns it.
  Graph finish(std::vector<NodeInput> outputs);
  Graph finish(NodeInput output) { return finish(std::vector{std::move(output)}); }

 private:
  NodeInput add(Node node);

  /// `name`, numbered if taken.
  std::string numbered(const std::string& name);

  Graph graph_;
  std::map<std::string, int> uses_;
};

/// A constant input.
inline NodeInput constant(int64_t value) { return NodeInput::of_constant(Value(value)); }

}  // namespace detent
