#include "detent/graph/builder.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

Parameter float_parameter(Shape shape, float value = 0, bool trainable = true) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  std::ranges::fill(tensor.values<float>(), value);
  return {std::move(tensor), trainable};
}

Node module_node(const std::string& op, const std::string& target, std::vector<NodeInput> inputs,
                 Table attributes) {
  Node node;
  node.name = target;
  std::ranges::replace(node.name, '.', '_');
  node.target = target;
  node.op = op;
  node.mase_type = find_operator(op).mase_type;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  return node;
}

}  // namespace

NodeInput GraphBuilder::add(Node node) {
  NodeInput result = NodeInput::of(node.name);
  graph_.add(std::move(node));
  return result;
}

std::string GraphBuilder::numbered(const std::string& name) {
  const int repetition = uses_[name]++;
  return repetition == 0 ? name : fmt::format("{}_{}", name, repetition);
}

NodeInput GraphBuilder::input(const std::string& name, const Shape& shape) {
  Shape with_batch = {1};
  with_batch.insert(with_batch.end(), shape.begin(), shape.end());
  graph_.add_input(name, with_batch);
  return NodeInput::of(name);
}

NodeInput GraphBuilder::input(const std::string& name, TensorType type) {
  graph_.add_input(name, std::move(type));
  return NodeInput::of(name);
}

NodeInput GraphBuilder::call(const std::string& op, std::vector<NodeInput> inputs, Table attributes) {
  Node node;
  node.name = numbered(op);
  node.op = op;
  node.mase_type = find_operator(op).mase_type;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  return add(std::move(node));
}

NodeInput GraphBuilder::module(const std::string& op, const std::string& target, NodeInput input,
                               Table attributes) {
  Node node = module_node(op, target, {std::move(input)}, std::move(attributes));
  node.name = numbered(node.name);
  return add(std::move(node));
}

NodeInput GraphBuilder::parameter(const std::string& target, const Shape& shape) {
  return layer("get_attr", target, {}, {{"value", shape}});
}

NodeInput GraphBuilder::linear(const std::string& target, NodeInput input, int64_t in, int64_t out,
                               bool bias) {
  Node node = module_node("linear", target, {std::move(input)}, {});
  node.parameters.emplace_back("weight", float_parameter({out, in}));
  if (bias) node.parameters.emplace_back("bias", float_parameter({out}));
  return add(std::move(node));
}

NodeInput GraphBuilder::convolution(const std::string& target, NodeInput input, int64_t in, int64_t out,
                                    const Shape& kernel, Table attributes, bool bias) {
  const Value* groups = attributes.find("groups");
  const int64_t* group_count = groups == nullptr ? nullptr : groups->get_if<int64_t>();
  Shape weight = {out, group_count == nullptr ? in : in / *group_count};
  weight.insert(weight.end(), kernel.begin(), kernel.end());
  Node node =
      module_node(fmt::format("conv{}d", kernel.size()), target, {std::move(input)}, std::move(attributes));
  node.parameters.emplace_back("weight", float_parameter(std::move(weight)));
  if (bias) node.parameters.emplace_back("bias", float_parameter({out}));
  return add(std::move(node));
}

NodeInput GraphBuilder::layer(const std::string& op, const std::string& target, std::vector<NodeInput> inputs,
                              const std::vector<std::pair<std::string, Shape>>& parameters,
                              Table attributes) {
  Node node = module_node(op, target, std::move(inputs), std::move(attributes));
  for (const auto& [name, shape] : parameters) {
    const ParameterSchema* schema = find_operator(op).find_parameter(name);
    if (schema == nullptr) fail("node \"{}\" ({}): unknown parameter \"{}\"", node.name, op, name);
    const auto* initial = std::get_if<ConstantInitial>(&schema->initial);
    node.parameters.emplace_back(
        name, float_parameter(shape, initial == nullptr ? 0 : initial->value, schema->trainable));
  }
  return add(std::move(node));
}

NodeInput GraphBuilder::tied_layer(const std::string& op, const std::string& target,
                                   std::vector<NodeInput> inputs, const std::string& parameter,
                                   const NodeInput& owner) {
  Node node = module_node(op, target, std::move(inputs), {});
  const auto& owned = graph_.node(owner.node).parameters;
  const auto found = std::ranges::find(owned, parameter, &std::pair<std::string, ParameterRef>::first);
  if (found == owned.end()) fail("node \"{}\" has no parameter \"{}\" to share", owner.node, parameter);
  node.parameters.push_back(*found);
  return add(std::move(node));
}

NodeInput GraphBuilder::batch_norm(const std::string& op, const std::string& target, NodeInput input,
                                   int64_t channels, Table attributes) {
  std::vector<std::pair<std::string, Shape>> parameters;
  for (const ParameterSchema& schema : find_operator(op).parameters)
    parameters.emplace_back(schema.name, Shape{channels});
  return layer(op, target, {std::move(input)}, parameters, std::move(attributes));
}

Graph GraphBuilder::finish(std::vector<NodeInput> outputs) {
  Node node;
  node.name = "output";
  node.op = "output";
  node.mase_type = MaseType::kOutput;
  node.inputs = std::move(outputs);
  graph_.add(std::move(node));
  verify(graph_);
  return std::move(graph_);
}

}  // namespace detent
