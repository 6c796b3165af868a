#include "detent/graph/operators.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/graph/operators/families.h"

namespace detent {

std::span<const OperatorSchema> all_operators() {
  static const std::vector<OperatorSchema> operators = [] {
    std::vector<OperatorSchema> list;
    for (auto family : {structural_operators, linear_operators, convolution_operators, activation_operators,
                        pooling_operators, normalization_operators, embedding_operators, arithmetic_operators,
                        shape_operators, indexing_operators}) {
      for (OperatorSchema& schema : family()) list.push_back(std::move(schema));
    }
    std::ranges::sort(list, {}, &OperatorSchema::name);
    return list;
  }();
  return operators;
}

const OperatorSchema* known_operator(std::string_view name) {
  const auto operators = all_operators();
  const auto it = std::ranges::lower_bound(
      operators, name, {}, [](const OperatorSchema& schema) { return std::string_view(schema.name); });
  return it == operators.end() || it->name != name ? nullptr : &*it;
}

const OperatorSchema& find_operator(std::string_view name) {
  const OperatorSchema* schema = known_operator(name);
  if (schema == nullptr) throw Error(unknown_name_message("operator", name, operator_names()));
  return *schema;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const OperatorSchema& schema : all_operators()) names.push_back(schema.name);
  return names;
}

const ParameterSchema* OperatorSchema::find_parameter(std::string_view parameter) const {
  const auto it = std::ranges::find(parameters, parameter, &ParameterSchema::name);
  return it == parameters.end() ? nullptr : &*it;
}

const AttributeSchema* OperatorSchema::find_attribute(std::string_view attribute) const {
  const auto it = std::ranges::find(attributes, attribute, &AttributeSchema::name);
  return it == attributes.end() ? nullptr : &*it;
}

std::optional<int64_t> OperatorSchema::reduction_dim(std::string_view operand) const {
  const auto it = std::ranges::find(reduction_dims, operand, &std::pair<std::string, int64_t>::first);
  return it == reduction_dims.end() ? std::nullopt : std::optional(it->second);
}

namespace {

const Value& attribute(const Node& node, std::string_view name) {
  const Value* value = node.attributes.find(name);
  DETENT_CHECK(value != nullptr, "node {} ({}) has no attribute {}", node.name, node.op, name);
  return *value;
}

}  // namespace

int64_t integer_attribute(const Node& node, std::string_view name) {
  const auto* value = attribute(node, name).get_if<int64_t>();
  DETENT_CHECK(value != nullptr, "attribute {} of {} is {}", name, node.name,
               value_text(attribute(node, name)));
  return *value;
}

double number_attribute(const Node& node, std::string_view name) {
  double scratch = 0;
  const double* value = attribute(node, name).number(scratch);
  DETENT_CHECK(value != nullptr, "attribute {} of {} is {}", name, node.name,
               value_text(attribute(node, name)));
  return *value;
}

bool boolean_attribute(const Node& node, std::string_view name) {
  const auto* value = attribute(node, name).get_if<bool>();
  DETENT_CHECK(value != nullptr, "attribute {} of {} is {}", name, node.name,
               value_text(attribute(node, name)));
  return *value;
}

const std::string& choice_attribute(const Node& node, std::string_view name) {
  const auto* value = attribute(node, name).get_if<std::string>();
  DETENT_CHECK(value != nullptr, "attribute {} of {} is {}", name, node.name,
               value_text(attribute(node, name)));
  return *value;
}

std::vector<int64_t> integers_attribute(const Node& node, std::string_view name, size_t count) {
  const Value& value = attribute(node, name);
  if (const auto* integer = value.get_if<int64_t>())
    return std::vector<int64_t>(std::max<size_t>(count, 1), *integer);
  const List* list = value.get_if<List>();
  DETENT_CHECK(list != nullptr, "attribute {} of {} is {}", name, node.name, value_text(value));
  std::vector<int64_t> result;
  for (const Value& element : *list) {
    DETENT_CHECK(element.is<int64_t>(), "attribute {} of {} is {}", name, node.name, value_text(value));
    result.push_back(*element.get_if<int64_t>());
  }
  if (count > 0 && result.size() != count) {
    fail("node \"{}\" ({}): attribute \"{}\": got {}, expected {} integers", node.name, node.op, name,
         value_text(value), count);
  }
  return result;
}

std::map<std::string, Operand, std::less<>> infer_shapes(const Graph& graph, int64_t batch) {
  std::map<std::string, Operand, std::less<>> results;
  for (const Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kInput) {
      Shape shape = graph.input_shapes().at(node.name);
      shape[0] = batch;
      results[node.name] = {std::move(shape), Value()};
      continue;
    }
    std::vector<Operand> inputs;
    for (const NodeInput& input : node.inputs) {
      inputs.push_back(input.is_constant() ? Operand{{1}, input.constant} : results.at(input.node));
    }
    try {
      const Operand& result = results[node.name] = find_operator(node.op).infer(node, inputs);
      element_count(result.shape);  // there are tensors that large
    } catch (const Error& error) {
      fail("node \"{}\" ({}): {}", node.name, node.op, error.what());
    }
  }
  return results;
}

std::vector<std::string> quantizable_operands(const Node& node) {
  const OperatorSchema& schema = find_operator(node.op);
  const std::vector<std::string>& indices = schema.index_operands;
  std::vector<std::string> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    std::string operand = fmt::format("data_in_{}", i);
    const bool is_index = std::ranges::find(indices, operand) != indices.end();
    if (!node.inputs[i].is_constant() && !is_index) operands.push_back(std::move(operand));
  }
  for (const auto& [name, parameter] : node.parameters) {
    if (schema.find_parameter(name) != nullptr) operands.push_back(name);
  }
  if (schema.role != OperatorRole::kOutput) operands.emplace_back("data_out_0");
  return operands;
}

}  // namespace detent
