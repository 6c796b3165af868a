#include "detent/graph/operators.h"

#include <algorithm>
#include <unordered_map>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/graph/known_elements.h"
#include "detent/graph/loop.h"
#include "detent/graph/node_names.h"
#include "detent/operators/schema.h"

namespace detent {

std::span<const OperatorSchema> all_operators() {
  static const std::vector<OperatorSchema> operators = [] {
    std::vector<OperatorSchema> list;
    for (auto family :
         {structural_operators, linear_operators,        convolution_operators,   activation_operators,
          pooling_operators,    normalization_operators, embedding_operators,     arithmetic_operators,
          shape_operators,      indexing_operators,      function_operators,      elementwise_operators,
          reduction_operators,  gather_operators,        dynamic_shape_operators, resize_operators,
          recurrent_operators,  einsum_operators,        detection_operators,     quantized_operators,
          table_operators,      lutnet_operators,        control_flow_operators}) {
      for (OperatorSchema& schema : family()) list.push_back(std::move(schema));
    }
    std::ranges::sort(list, {}, &OperatorSchema::name);
    return list;
  }();
  return operators;
}

const OperatorSchema* known_operator(std::string_view name) {
  static const std::unordered_map<std::string_view, const OperatorSchema*> operators = [] {
    std::unordered_map<std::string_view, const OperatorSchema*> map;
    for (const OperatorSchema& schema : all_operators()) map.emplace(schema.name, &schema);
    return map;
  }();
  const auto found = operators.find(name);
  return found == operators.end() ? nullptr : found->second;
}

const OperatorSchema& find_operator(std::string_view name) {
  const OperatorSchema* schema = known_operator(name);
  if (schema == nullptr) fail_unknown("", "operator", name, operator_names());
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

size_t choice_index(const Node& node, std::string_view name) {
  const auto& attributes = find_operator(node.op).attributes;
  const auto& choices = std::ranges::find(attributes, name, &AttributeSchema::name)->choices;
  return static_cast<size_t>(std::ranges::find(choices, choice_attribute(node, name)) - choices.begin());
}

const std::string& text_attribute(const Node& node, std::string_view name) {
  return choice_attribute(node, name);
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

namespace {

bool holds_indices(const OperatorSchema& schema, size_t input) {
  return std::ranges::find(schema.index_operands, fmt::format("data_in_{}", input)) !=
         schema.index_operands.end();
}

/// The element type of the results, as the operator's rule gives it.
std::optional<DType> kept_dtype(const OperatorSchema& schema, std::span<const Operand> inputs) {
  if (schema.dtypes == DTypeRule::kOwn) return std::nullopt;
  std::optional<DType> kept;
  if (schema.dtypes == DTypeRule::kFloat) kept = DType::kFloat32;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) continue;
    const DType dtype = inputs[i].dtype;
    if (!schema.index_operands.empty() && holds_indices(schema, i)) {
      if (dtype == DType::kInt64 || dtype == DType::kFloat32) continue;
      fail("input {} is {}, expected indices: int64, or float32 with integer values", i, dtype_name(dtype));
    }
    if (!kept) kept = dtype;
    if (dtype != *kept) fail("input {} is {}, expected {}", i, dtype_name(dtype), dtype_name(*kept));
  }
  return kept;
}

}  // namespace

size_t result_count(const Node& node) {
  const OperatorSchema& schema = find_operator(node.op);
  return schema.result_count ? schema.result_count(node) : 1;
}

namespace {

std::vector<Operand> infer_by_schema(const OperatorSchema& schema, const Node& node,
                                     std::span<const Operand> inputs) {
  if (schema.infer_results) return schema.infer_results(node, inputs);
  return {schema.infer(node, inputs)};
}

/// A layer's input has as many channels as the weight takes, where its shape does not say.
void set_channels(const OperatorSchema& schema, const Node& node, Shape& input) {
  const auto* sum = std::get_if<WeightedSum>(&schema.trait);
  const Parameter* const weight = node.find_parameter("weight");
  if (sum == nullptr || weight == nullptr || input.size() < 2 || weight->tensor.rank() < 2) return;
  int64_t& channels = input[dimension_index(sum->channel_axis, input.size())];
  if (channels != kOpenSize) return;
  const bool has_groups = schema.find_attribute("groups") != nullptr && !sum->transposed;
  channels = weight->tensor.dim(sum->reduction_axis()) * (has_groups ? integer_attribute(node, "groups") : 1);
}

/// Tries two sizes for what is open: where the results' sizes differ, they are open too, and elements that
/// differ are unknown. Throws Error where something differs that a result cannot leave open.
std::vector<Operand> infer_by_trial(const OperatorSchema& schema, const Node& node,
                                    std::span<const Operand> inputs) {
  constexpr int64_t kTrials[] = {int64_t{2} * 3 * 4 * 5 * 7, int64_t{2} * 3 * 4 * 5 * 11};
  std::vector<Operand> results;
  for (const int64_t size : kTrials) {
    std::vector<Operand> tried(inputs.begin(), inputs.end());
    if (!tried.empty()) set_channels(schema, node, tried[0].shape);
    for (Operand& input : tried) std::ranges::replace(input.shape, kOpenSize, size);
    const std::vector<Operand> found = infer_by_schema(schema, node, tried);
    if (results.empty()) results = found;
    if (found.size() != results.size()) fail("the number of results depends on a size that is not known");
    for (size_t i = 0; i < results.size(); ++i) {
      if (found[i].value != results[i].value || found[i].shape.size() != results[i].shape.size())
        fail("result {} depends on a size that is not known", i);
      if (!have_same_elements(found[i], results[i])) results[i].elements.reset();
      for (size_t d = 0; d < results[i].shape.size(); ++d) {
        if (results[i].shape[d] != found[i].shape[d]) results[i].shape[d] = kOpenSize;
      }
    }
  }
  return results;
}

/// No machine holds more: a network that asks for it is refused before it takes any memory.
void expect_possible(const Operand& result) {
  constexpr int64_t kMostPossibleElements = int64_t{1} << 40;
  const Shape& shape = result.shape;
  if (shape.size() > kMostDims)
    fail("a result of {} dimensions, expected at most {}", shape.size(), kMostDims);
  if (result.is_open()) return;
  if (const int64_t count = element_count(shape); count > kMostPossibleElements)
    fail("a result of shape {} has {} elements, expected at most {}", shape_text(shape), count,
         kMostPossibleElements);
}

std::vector<Operand> inferred(const Node& node, std::span<const Operand> inputs, bool with_elements) {
  const OperatorSchema& schema = find_operator(node.op);
  try {
    const std::optional<DType> dtype = kept_dtype(schema, inputs);
    const bool by_trial = !schema.takes_open_sizes && std::ranges::any_of(inputs, &Operand::is_open);
    std::vector<Operand> results =
        by_trial ? infer_by_trial(schema, node, inputs) : infer_by_schema(schema, node, inputs);
    for (Operand& result : results) {
      expect_possible(result);
      if (dtype) result.dtype = *dtype;
    }
    if (with_elements && !by_trial && results.size() == 1 && !results[0].elements)
      results[0].elements = known_elements(schema, node, inputs, results[0]);
    return results;
  } catch (const Error& error) {
    throw node_error(node, error);
  }
}

}  // namespace

std::vector<Operand> infer_results(const Node& node, std::span<const Operand> inputs) {
  return inferred(node, inputs, true);
}

std::vector<Operand> infer_types(const Node& node, std::span<const Operand> inputs) {
  return inferred(node, inputs, false);
}

Operand constant_operand(const Value& constant) {
  const List* list = constant.get_if<List>();
  if (list == nullptr) return {{1}, constant, DType::kFloat32, constant.is_na()};
  const bool integers = std::ranges::all_of(*list, [](const Value& v) { return v.is<int64_t>(); });
  const DType dtype = integers ? DType::kInt64 : DType::kFloat32;
  Tensor elements(dtype, {std::ssize(*list)});
  for (size_t i = 0; i < list->size(); ++i) {
    const auto number = tensor_of_number((*list)[i], dtype);
    DETENT_CHECK(number.has_value(), "{} is no number", value_text((*list)[i]));
    std::ranges::copy(number->bytes(), elements.bytes().subspan(i * dtype_size(dtype)).begin());
  }
  return {elements.shape(), Value(), dtype, false, elements};
}

void infer_more_shapes(std::span<const Node> nodes, ValueTypes& values) {
  constexpr size_t kMostKnown = size_t{16} << 20;  // bytes of elements, which no network's shapes reach
  size_t known = 0;
  for (const Node& node : nodes) {
    if (node.inputs.empty() && values.contains(node.name)) continue;
    std::vector<Operand> inputs;
    for (const NodeInput& input : node.inputs) {
      inputs.push_back(input.is_constant() ? constant_operand(input.constant) : values.at(value_name(input)));
    }
    std::vector<Operand> results = infer_results(node, inputs);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].elements && role_of(node) != OperatorRole::kConstant)
        known += results[i].elements->byte_size();
      if (known > kMostKnown) results[i].elements.reset();
      values[value_name(node.name, i)] = std::move(results[i]);
    }
  }
}

ValueTypes infer_shapes(const Graph& graph, const NamedSizes& sizes) {
  ValueTypes values;
  for (const auto& [name, type] : graph.input_types())
    values[name] = {type.concrete(sizes), Value(), type.dtype};
  infer_more_shapes(graph.nodes(), values);
  return values;
}

ValueTypes infer_shapes_of(const Graph& graph, std::span<const Operand> inputs) {
  ValueTypes values;
  size_t next = 0;
  for (const std::string& name : graph.input_names()) values[name] = inputs[next++];
  infer_more_shapes(graph.nodes(), values);
  return values;
}

ValueTypes infer_shapes(const Graph& graph, int64_t batch) {
  return infer_shapes(graph, NamedSizes{{kBatchName, batch}});
}

Operand operand_type(const Node& node, std::string_view operand, const ValueTypes& values) {
  if (const Parameter* parameter = node.find_parameter(operand)) {
    return {parameter->tensor.shape(), Value(), parameter->tensor.dtype()};
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (operand == fmt::format("data_in_{}", i)) return values.at(value_name(node.inputs[i]));
  }
  for (size_t i = 0; i < result_count(node); ++i) {
    if (operand == fmt::format("data_out_{}", i)) return values.at(value_name(node.name, i));
  }
  DETENT_CHECK(false, "node {} has no operand {}", node.name, operand);
  return {};
}

std::vector<std::string> quantizable_operands(const Node& node) {
  const OperatorSchema& schema = find_operator(node.op);
  std::vector<std::string> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].is_constant() || holds_indices(schema, i)) continue;
    operands.push_back(fmt::format("data_in_{}", i));
  }
  for (const auto& [name, parameter] : node.parameters) {
    if (schema.find_parameter(name) != nullptr) operands.push_back(name);
  }
  if (schema.role == OperatorRole::kOutput) return operands;
  for (size_t i = 0; i < result_count(node); ++i) operands.push_back(fmt::format("data_out_{}", i));
  return operands;
}

}  // namespace detent
