#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/graph.h"
#include "detent/graph/loop.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/graph/owned_parameters.h"

namespace detent {
namespace {

std::string place_of(const Node& node) { return fmt::format("node \"{}\" ({})", node.name, node.op); }

void verify_name(const std::string& name) {
  const bool valid = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
  if (!valid) fail("node \"{}\": a name consists of letters, digits and underscores", name);
}

bool is_number_value(const Value& value) {
  double scratch = 0;
  return value.number(scratch) != nullptr;
}

bool is_number_or_list(const Value& value) {
  const List* list = value.get_if<List>();
  return is_number_value(value) || (list != nullptr && std::ranges::all_of(*list, is_number_value));
}

/// Number of results of the nodes before, by name.
using Earlier = std::unordered_map<std::string, size_t>;

bool may_be_absent(const OperatorSchema& schema, int64_t input) {
  return std::ranges::find(schema.optional_operands, fmt::format("data_in_{}", input)) !=
         schema.optional_operands.end();
}

void verify_inputs(const Node& node, const OperatorSchema& schema, const Earlier& earlier) {
  const size_t count = node.inputs.size();
  if (count < schema.min_inputs || count > schema.max_inputs) {
    const std::string allowed = schema.min_inputs == schema.max_inputs
                                    ? fmt::format("{}", schema.min_inputs)
                                    : fmt::format("{} to {}", schema.min_inputs, schema.max_inputs);
    throw DetailedError(fmt::format("{}: got {} inputs, expected {}", place_of(node), count, allowed),
                        {.node = node.name, .got = std::to_string(count), .allowed = allowed});
  }
  for (const NodeInput& input : node.inputs) {
    if (input.is_absent() && may_be_absent(schema, &input - node.inputs.data())) continue;
    if (input.is_absent()) {
      fail("node \"{}\" ({}): input {} is absent", node.name, node.op, &input - node.inputs.data());
    }
    if (input.is_constant() && !is_number_or_list(input.constant)) {
      fail("node \"{}\" ({}): the constant input {} is neither a number nor a list of numbers", node.name,
           node.op, value_text(input.constant));
    }
    if (input.is_constant()) continue;
    const auto giver = earlier.find(input.node);
    if (giver == earlier.end())
      fail("node \"{}\" reads \"{}\", which is no earlier node", node.name, input.node);
    if (input.result < giver->second) continue;
    fail("node \"{}\" reads result {} of \"{}\", which has {}", node.name, input.result, input.node,
         giver->second);
  }
}

/// Executors go by the operator, files of MASE by the type.
void verify_mase_type(const Node& node) {
  for (const auto& [role, type] : {std::pair(OperatorRole::kInput, MaseType::kPlaceholder),
                                   std::pair(OperatorRole::kConstant, MaseType::kGetAttr),
                                   std::pair(OperatorRole::kOutput, MaseType::kOutput)}) {
    if ((role_of(node) == role) == (node.mase_type == type)) continue;
    fail("node \"{}\" ({}): got the MASE type \"{}\", which {} has and no other operator", node.name, node.op,
         enum_name(node.mase_type), enum_name(type));
  }
}

bool is_choice(const Value& value, const AttributeSchema& attribute) {
  const auto* text = value.get_if<std::string>();
  return text != nullptr && std::ranges::find(attribute.choices, *text) != attribute.choices.end();
}

bool has_kind(const Value& value, const AttributeSchema& attribute) {
  double scratch = 0;
  const auto is_integer = [](const Value& v) { return v.is<int64_t>(); };
  switch (attribute.kind) {
    case AttributeKind::kInteger:
      return is_integer(value);
    case AttributeKind::kNumber:
      return value.number(scratch) != nullptr;
    case AttributeKind::kBoolean:
      return value.is<bool>();
    case AttributeKind::kIntegers:
      return is_integer(value) ||
             (value.is<List>() && std::ranges::all_of(*value.get_if<List>(), is_integer));
    case AttributeKind::kChoice:
      return is_choice(value, attribute);
    case AttributeKind::kText:
      return value.is<std::string>();
  }
  return false;
}

std::string expected_text(const AttributeSchema& attribute) {
  if (attribute.kind == AttributeKind::kChoice)
    return fmt::format("one of {}", fmt::join(attribute.choices, ", "));
  constexpr const char* kKinds[] = {"an integer", "a number", "a boolean", "an integer or a list of integers",
                                    "",           "text"};
  return kKinds[static_cast<size_t>(attribute.kind)];
}

void verify_attributes(const Node& node, const OperatorSchema& schema) {
  std::vector<std::string> known;
  for (const AttributeSchema& attribute : schema.attributes) {
    known.push_back(attribute.name);
    const Value* value = node.attributes.find(attribute.name);
    const bool optional = attribute.default_value.is_na() && attribute.optional;
    const bool fits = value != nullptr && ((value->is_na() && optional) || has_kind(*value, attribute));
    if (!fits) {
      fail_value(fmt::format("{}: attribute \"{}\"", place_of(node), attribute.name),
                 value == nullptr ? "nothing" : value_text(*value), expected_text(attribute),
                 {.node = node.name, .key = attribute.name});
    }
  }
  verify_accumulator(node);
  for (const auto& [key, value] : node.attributes) {
    if (key != kAccumulatorAttribute && std::ranges::find(known, key) == known.end()) {
      fail_unknown(place_of(node), "attribute", key, known, {.node = node.name, .key = key});
    }
  }
}

void verify_parameters(const Node& node, const OperatorSchema& schema) {
  std::vector<std::string> known;
  for (const ParameterSchema& parameter : schema.parameters) {
    known.push_back(parameter.name);
    if (parameter.required && node.find_parameter(parameter.name) == nullptr) {
      fail("node \"{}\" ({}): parameter \"{}\" is missing", node.name, node.op, parameter.name);
    }
  }
  std::set<std::string_view> seen;
  for (const auto& [name, parameter] : node.parameters) {
    if (std::ranges::find(known, name) == known.end()) {
      fail_unknown(place_of(node), "parameter", name, known, {.node = node.name});
    }
    if (!seen.insert(name).second)
      fail("node \"{}\" ({}): parameter \"{}\" occurs twice", node.name, node.op, name);
    const ParameterSchema* declared = schema.find_parameter(name);
    const bool any_dtype = declared != nullptr && declared->any_dtype && !parameter->trainable;
    if (any_dtype) dtype_of_name(dtype_name(parameter->tensor.dtype()));  // refuses those of no value
    if (!any_dtype && parameter->tensor.dtype() != DType::kFloat32) {
      fail_value(fmt::format("{}: parameter \"{}\"", place_of(node), name),
                 std::string(dtype_name(parameter->tensor.dtype())), "float32",
                 {.node = node.name, .key = name});
    }
  }
}

void verify_quantizer(const Node& node, const std::string& operand, const Quantizer& quantizer) {
  const std::string where = place_of(node);
  validate(quantizer.spec, fmt::format("{}: operand \"{}\"", where, operand));
  verify_owned_parameters(quantizer, operand, where);
}

void verify_quantization(const Node& node) {
  const std::vector<std::string> operands = quantizable_operands(node);
  for (const auto& [operand, quantizer] : node.quantization) {
    if (std::ranges::find(operands, operand) == operands.end()) {
      fail_unknown(place_of(node), "operand", operand, operands, {.node = node.name});
    }
    verify_quantizer(node, operand, *quantizer);
  }
}

void verify_quantized_operands(const Node& node, const ValueTypes& values) {
  for (const auto& [operand, quantizer] : node.quantization) {
    const QuantSpec& spec = quantizer->spec;
    const Operand type = operand_type(node, operand, values);
    if (!type.is_tensor() || type.dtype != DType::kFloat32) {
      fail("node \"{}\" ({}): operand \"{}\" is quantized, and is {}, expected a float32 tensor", node.name,
           node.op, operand, type.is_tensor() ? dtype_name(type.dtype) : "a number");
    }
    if (spec.granularity != Granularity::kChannel && spec.axis == 0) continue;
    const auto rank = static_cast<int64_t>(type.shape.size());
    if (spec.axis < -rank || spec.axis >= rank) {
      fail("node \"{}\" ({}): operand \"{}\": key \"axis\": got {}, expected a dimension of the shape {}",
           node.name, node.op, operand, spec.axis, shape_text(type.shape));
    }
  }
}

void verify_content(const Node& node, const ValueTypes& values) {
  const OperatorSchema& schema = find_operator(node.op);
  if (!schema.check_content) return;
  std::vector<Operand> inputs;
  for (const NodeInput& input : node.inputs) {
    inputs.push_back(input.is_constant() ? constant_operand(input.constant) : values.at(value_name(input)));
  }
  try {
    schema.check_content(node, inputs);
  } catch (const Error& error) {
    throw node_error(node, error);
  }
}

void verify_input_types(const Graph& graph) {
  for (const auto& [name, type] : graph.input_types()) {
    const Node* node = graph.find(name);
    if (node == nullptr || role_of(*node) != OperatorRole::kInput)
      fail("node \"{}\": only placeholders have an input type", name);
    const auto is_wrong = [](const Dimension& d) { return d.size < (d.is_named() ? kOpenSize : 0); };
    if (std::ranges::any_of(type.shape, is_wrong)) {
      fail("node \"{}\": got the input type {}, expected names and sizes of at least 0", name,
           tensor_type_text(type));
    }
  }
}

void verify_graph(const Graph& graph, size_t depth);

void verify_body(const Node& node, const OperatorSchema& schema, size_t depth) {
  if (schema.has_body != (node.body != nullptr))
    fail("{}: {}", place_of(node), schema.has_body ? "has no body" : "has a body, which only loops have");
  if (!schema.has_body) return;
  if (depth == kDeepestLoop) fail("{}: loops lie more than {} deep", place_of(node), kDeepestLoop);
  try {
    verify_graph(*node.body, depth + 1);
  } catch (const Error& error) {
    throw with_fields(error, fmt::format("{}: in its body: {}", place_of(node), error.what()),
                      {.node = node.name});
  }
}

void verify_node(const Node& node, const Graph& graph, const Earlier& earlier, size_t depth) {
  const OperatorSchema& schema = find_operator(node.op);
  verify_body(node, schema, depth);
  verify_inputs(node, schema, earlier);
  verify_name(node.name);
  if (earlier.contains(node.name)) fail("node \"{}\": the name occurs twice", node.name);
  verify_mase_type(node);
  verify_attributes(node, schema);
  verify_parameters(node, schema);
  verify_quantization(node);
  const bool last = &node == &graph.nodes().back();
  if ((schema.role == OperatorRole::kOutput) != last) {
    fail("graph \"{}\": the last node, and no other, must be the output; got \"{}\" ({})", graph.name(),
         node.name, node.op);
  }
  if (schema.role == OperatorRole::kInput && !graph.input_types().contains(node.name)) {
    fail("node \"{}\": a placeholder without a type", node.name);
  }
}

/// `depth`: of the loops around it.
void verify_graph(const Graph& graph, size_t depth) {
  Earlier earlier;
  for (const Node& node : graph.nodes()) {
    verify_node(node, graph, earlier, depth);
    earlier.emplace(node.name, result_count(node));
  }
  if (graph.nodes().empty()) fail("graph \"{}\" has no nodes", graph.name());
  verify_input_types(graph);
  const ValueTypes values = infer_shapes(graph);
  for (const Node& node : graph.nodes()) {
    verify_quantized_operands(node, values);
    verify_content(node, values);
  }
  for (const NodeInput& output : graph.nodes().back().inputs) {
    if (output.is_constant() || !values.at(value_name(output)).is_tensor()) {
      fail("graph \"{}\": the output is a number, expected a tensor", graph.name());
    }
  }
}

}  // namespace

void verify(const Graph& graph) { verify_graph(graph, 0); }

}  // namespace detent
