#include "detent/graph/graph.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {

std::string_view mase_type_name(MaseType type) { return enum_names(type)[static_cast<size_t>(type)]; }

const Parameter* Node::find_parameter(std::string_view parameter) const {
  const auto it = std::ranges::find(parameters, parameter, &std::pair<std::string, Parameter>::first);
  return it == parameters.end() ? nullptr : &it->second;
}

Parameter* Node::find_parameter(std::string_view parameter) {
  return const_cast<Parameter*>(std::as_const(*this).find_parameter(parameter));
}

std::string Node::parameter_key(std::string_view parameter) const {
  if (role_of(*this) == OperatorRole::kConstant && parameter == "value") return target;
  return target.empty() ? fmt::format("{}.{}", name, parameter) : fmt::format("{}.{}", target, parameter);
}

const QuantSpec* Node::find_quantization(std::string_view operand) const {
  const auto it = quantization.find(operand);
  return it == quantization.end() ? nullptr : &it->second;
}

std::vector<std::string> Node::scale_names() const {
  std::vector<std::string> names;
  for (const auto& [operand, spec] : quantization) {
    if (spec.scale_rule == ScaleRule::kLearned) names.push_back(scale_name(operand));
  }
  return names;
}

const Node* Graph::find(std::string_view name) const {
  const auto it = std::ranges::find(nodes_, name, &Node::name);
  return it == nodes_.end() ? nullptr : &*it;
}

const Node& Graph::node(std::string_view name) const {
  const Node* found = find(name);
  if (found == nullptr) throw Error(unknown_name_message("node", name, node_names()));
  return *found;
}

Node& Graph::node(std::string_view name) { return const_cast<Node&>(std::as_const(*this).node(name)); }

std::vector<std::string> Graph::node_names() const {
  std::vector<std::string> names;
  for (const Node& node : nodes_) names.push_back(node.name);
  return names;
}

std::vector<std::string> Graph::input_names() const {
  std::vector<std::string> names;
  for (const Node& node : nodes_) {
    if (role_of(node) == OperatorRole::kInput) names.push_back(node.name);
  }
  return names;
}

void Graph::add_input(std::string name, Shape shape) {
  if (shape.empty() || shape[0] != 1) {
    fail("input \"{}\": got shape {}, expected a batch dimension of size 1 first", name, shape_text(shape));
  }
  Node node;
  node.name = name;
  node.op = "placeholder";
  node.mase_type = MaseType::kPlaceholder;
  add(std::move(node));
  input_shapes_[std::move(name)] = std::move(shape);
}

Node& Graph::add(Node node) {
  if (find(node.name) != nullptr) fail("node \"{}\": the name is taken", node.name);
  for (const NodeInput& input : node.inputs) {
    if (input.is_constant() || find(input.node) != nullptr) continue;
    fail("node \"{}\": {}", node.name, unknown_name_message("input", input.node, node_names()));
  }
  Table attributes;
  for (const AttributeSchema& schema : find_operator(node.op).attributes) {
    const Value* given = node.attributes.find(schema.name);
    attributes[schema.name] = given != nullptr ? *given : schema.default_value;
    node.attributes.erase(schema.name);
  }
  for (auto& [key, value] : node.attributes)
    attributes[key] = std::move(value);  // unknown ones: verify() names them
  node.attributes = std::move(attributes);
  return nodes_.emplace_back(std::move(node));
}

void Graph::erase(std::string_view name) {
  const Node& removed = node(name);
  for (const Node& reader : nodes_) {
    for (const NodeInput& input : reader.inputs) {
      if (input.node == name) fail("node \"{}\" cannot be removed: \"{}\" reads it", name, reader.name);
    }
  }
  if (const auto shape = input_shapes_.find(name); shape != input_shapes_.end()) input_shapes_.erase(shape);
  nodes_.erase(nodes_.begin() + (&removed - nodes_.data()));
}

Graph Graph::deep_copy() const {
  Graph copy = *this;
  for (Node& node : copy.nodes_) {
    for (auto& [name, parameter] : node.parameters) parameter.tensor = parameter.tensor.clone();
  }
  return copy;
}

int64_t Graph::parameter_count() const {
  int64_t count = 0;
  for (const Node& node : nodes_) {
    for (const auto& [name, parameter] : node.parameters) {
      if (parameter.trainable) count += parameter.tensor.numel();
    }
  }
  return count;
}

}  // namespace detent
