#include "detent/graph/graph.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

/// Parameters of all nodes and quantizers in order, shared ones once.
std::vector<ParameterRef> distinct_parameters(const Graph& graph) {
  std::vector<ParameterRef> distinct;
  std::unordered_set<const Parameter*> seen;
  for (const Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.all_parameters()) {
      if (seen.insert(&*parameter).second) distinct.push_back(parameter);
    }
  }
  return distinct;
}

int64_t trainable_elements(const Graph& graph) {
  int64_t count = 0;
  for (const ParameterRef& parameter : distinct_parameters(graph)) {
    if (parameter->trainable) count += parameter->tensor.numel();
  }
  for (const Node& node : graph.nodes()) {
    if (node.body != nullptr) count += trainable_elements(*node.body);
  }
  return count;
}

/// Replaces references by such to a copy, equal ones by equal ones.
template <class T>
class OwnCopies {
 public:
  /// Whether it is the first to that copy.
  bool replace(SharedRef<T>& reference) {
    const auto found = own_.find(&*reference);
    const bool is_new = found == own_.end();
    reference = is_new ? own_.emplace(&*reference, *reference).first->second : found->second;
    return is_new;
  }

 private:
  std::unordered_map<const T*, SharedRef<T>> own_;
};

}  // namespace

const Parameter* Node::find_parameter(std::string_view parameter) const {
  const auto it = std::ranges::find(parameters, parameter, &std::pair<std::string, ParameterRef>::first);
  return it == parameters.end() ? nullptr : &*it->second;
}

Parameter* Node::find_parameter(std::string_view parameter) {
  return const_cast<Parameter*>(std::as_const(*this).find_parameter(parameter));
}

Parameter* Node::own_parameter(std::string_view parameter) {
  const auto it = std::ranges::find(parameters, parameter, &std::pair<std::string, ParameterRef>::first);
  if (it == parameters.end()) return nullptr;
  it->second.separate();
  return &*it->second;
}

std::string Node::parameter_key(std::string_view parameter) const {
  if (role_of(*this) == OperatorRole::kConstant && parameter == "value") return target;
  return target.empty() ? fmt::format("{}.{}", name, parameter) : fmt::format("{}.{}", target, parameter);
}

const Quantizer* Node::find_quantizer(std::string_view operand) const {
  const auto it = quantization.find(operand);
  return it == quantization.end() ? nullptr : &*it->second;
}

const QuantSpec* Node::find_quantization(std::string_view operand) const {
  const Quantizer* quantizer = find_quantizer(operand);
  return quantizer == nullptr ? nullptr : &quantizer->spec;
}

std::optional<QuantSpec> Node::rounding(std::string_view operand) const {
  const Quantizer* quantizer = find_quantizer(operand);
  if (quantizer == nullptr) return std::nullopt;
  try {
    return quantizer->effective_spec();
  } catch (const Error& error) {
    throw with_fields(error, fmt::format("node \"{}\", operand \"{}\": {}", name, operand, error.what()),
                      {.node = name, .key = std::string(operand)});
  }
}

std::vector<std::pair<std::string, ParameterRef>> Node::all_parameters() const {
  std::vector<std::pair<std::string, ParameterRef>> all = parameters;
  for (const auto& [operand, quantizer] : quantization) {
    for (const auto& [of_quantizer, parameter] : quantizer->parameters)
      all.emplace_back(owned_parameter_name(operand, of_quantizer), parameter);
  }
  return all;
}

std::string value_name(std::string_view node, size_t result) {
  return result == 0 ? std::string(node) : fmt::format("{}:{}", node, result);
}

Graph::Graph() = default;
Graph::Graph(std::string name) : name_(std::move(name)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

Graph::Graph(const Graph& other)
    : name_(other.name_),
      nodes_(other.nodes_),
      positions_(other.positions_),
      input_types_(other.input_types_),
      requantization_(other.requantization_) {
  part_from_original();
}

Graph& Graph::operator=(const Graph& other) {
  Graph copy(other);
  return *this = std::move(copy);
}

/// Copied nodes refer to the parameters and quantizers of the original.
void Graph::part_from_original() {
  OwnCopies<Parameter> parameters;
  OwnCopies<Quantizer> quantizers;
  for (Node& node : nodes_) {
    for (auto& [name, parameter] : node.parameters) parameters.replace(parameter);
    for (auto& [operand, quantizer] : node.quantization) {
      if (!quantizers.replace(quantizer)) continue;
      for (auto& [name, parameter] : quantizer->parameters) parameters.replace(parameter);
    }
  }
}

void Graph::index_nodes() {
  positions_.clear();
  for (size_t i = 0; i < nodes_.size(); ++i) positions_.emplace(nodes_[i].name, i);
}

const Node* Graph::find(std::string_view name) const {
  const auto found = positions_.find(name);
  if (found == positions_.end()) return nullptr;
  const Node& node = nodes_[found->second];
  DETENT_CHECK(node.name == name, "node {} was renamed to {} behind the graph's back", name, node.name);
  return &node;
}

const Node& Graph::node(std::string_view name) const {
  const Node* found = find(name);
  if (found == nullptr) fail_unknown("", "node", name, node_names());
  return *found;
}

Node& Graph::node(std::string_view name) { return const_cast<Node&>(std::as_const(*this).node(name)); }

size_t Graph::position(std::string_view name) const {
  return static_cast<size_t>(&node(name) - nodes_.data());
}

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

std::map<std::string, Shape, std::less<>> Graph::input_shapes(const NamedSizes& sizes) const {
  std::map<std::string, Shape, std::less<>> shapes;
  for (const auto& [name, type] : input_types_) shapes.emplace(name, type.concrete(sizes));
  return shapes;
}

void Graph::add_input(std::string name, TensorType type) {
  Node node;
  node.name = name;
  node.op = "placeholder";
  node.mase_type = MaseType::kPlaceholder;
  add(std::move(node));
  input_types_[std::move(name)] = std::move(type);
}

void Graph::add_input(std::string name, const Shape& shape) {
  if (shape.empty() || shape[0] != 1) {
    fail("input \"{}\": got shape {}, expected a batch dimension of size 1 first", name, shape_text(shape));
  }
  TensorType type{DType::kFloat32, {kBatchName}};
  type.shape.insert(type.shape.end(), shape.begin() + 1, shape.end());
  add_input(std::move(name), std::move(type));
}

Node& Graph::add(Node node) {
  if (find(node.name) != nullptr) fail("node \"{}\": the name is taken", node.name);
  for (const NodeInput& input : node.inputs) {
    if (input.is_constant() || find(input.node) != nullptr) continue;
    fail_unknown(fmt::format("node \"{}\"", node.name), "input", input.node, node_names(),
                 {.node = node.name});
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
  positions_.emplace(node.name, nodes_.size());
  return nodes_.emplace_back(std::move(node));
}

void Graph::erase(std::string_view name) {
  const Node& removed = node(name);
  erase_if([&](const Node& other) { return &other == &removed; });
}

size_t Graph::erase_if(const std::function<bool(const Node&)>& is_removed) {
  std::vector<bool> removed(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) removed[i] = is_removed(nodes_[i]);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const NodeInput& input : nodes_[i].inputs) {
      if (removed[i] || input.is_constant() || !removed[position(input.node)]) continue;
      fail("node \"{}\" cannot be removed: \"{}\" reads it", input.node, nodes_[i].name);
    }
  }
  size_t kept = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (removed[i]) {
      input_types_.erase(nodes_[i].name);
    } else if (const size_t to = kept++; to != i) {
      nodes_[to] = std::move(nodes_[i]);
    }
  }
  const size_t count = nodes_.size() - kept;
  nodes_.erase(nodes_.end() - static_cast<int64_t>(count), nodes_.end());
  if (count > 0) index_nodes();
  return count;
}

void Graph::rename(std::string_view name, std::string new_name) {
  const size_t at = position(name);
  const std::string old_name(name);
  if (find(new_name) != nullptr) fail("node \"{}\": the name is taken", new_name);
  for (Node& reader : nodes_) {
    for (NodeInput& input : reader.inputs) {
      if (input.node == old_name) input.node = new_name;
    }
  }
  if (auto type = input_types_.extract(old_name)) {
    type.key() = new_name;
    input_types_.insert(std::move(type));
  }
  positions_.erase(positions_.find(old_name));
  positions_.emplace(new_name, at);
  nodes_[at].name = std::move(new_name);
}

Graph Graph::deep_copy() const {
  Graph copy = *this;
  for (ParameterRef& parameter : distinct_parameters(copy)) parameter->tensor = parameter->tensor.clone();
  for (Node& node : copy.nodes_) {
    if (node.body != nullptr) node.body = std::make_shared<const Graph>(node.body->deep_copy());
  }
  return copy;
}

int64_t Graph::parameter_count() const { return trainable_elements(*this); }

Graph with_input_types(const Graph& graph, const std::map<std::string, TensorType>& types) {
  Graph result(graph.name());
  result.set_requantization(graph.requantization());
  for (const Node& node : graph.nodes()) {
    const auto own = graph.input_types().find(node.name);
    if (own == graph.input_types().end()) {
      result.add(node);
      continue;
    }
    const auto other = types.find(node.name);
    result.add_input(node.name, other == types.end() ? own->second : other->second);
    result.node(node.name) = node;
  }
  return result;
}

}  // namespace detent
