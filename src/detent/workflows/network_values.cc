#include "detent/workflows/network_values.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/inference/plan.h"

namespace detent {
namespace {

/// The quantized integers of a node's value where it has a type for them; else the value as it is.
Tensor as_integers(const std::map<std::string, CodeType>& types, const NodeInput& value,
                   const Tensor& tensor) {
  const auto type = types.find(value_name(value));
  if (type == types.end() || tensor.dtype() != DType::kFloat32) return tensor;
  return as_dtype(codes_of(tensor, type->second), code_dtype(type->second));
}

}  // namespace

std::optional<Tensor> as_input_dtype(const Tensor& given, DType dtype) {
  const DType from = given.dtype();
  if (from == dtype) return given;
  if (is_floating_point(from) != is_floating_point(dtype) || dtype == DType::kBool) return std::nullopt;
  const bool holds_all =
      is_floating_point(from) || from == DType::kBool || dtype_size(from) < dtype_size(dtype);
  if (!holds_all) return std::nullopt;
  return dtype == DType::kFloat32 ? to_float32(given) : to_dtype(given, dtype);
}

std::vector<NamedValue> output_values(const Graph& graph) {
  const Node& output = graph.nodes().back();
  std::vector<NamedValue> outputs;
  for (size_t i = 0; i < output.inputs.size(); ++i)
    outputs.push_back({source_name_or(output, i, source_name(graph, output.inputs[i])), output.inputs[i]});
  return outputs;
}

NodeInput find_value(const Graph& graph, const std::string& name, const std::string& option) {
  std::vector<std::string> known;
  for (const Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kOutput) continue;
    for (size_t i = 0; i < result_count(node); ++i) {
      const NodeInput value = NodeInput::of(node.name, i);
      known.push_back(value_name(value));
      if (known.back() == name || source_name(graph, value) == name) return value;
      if (source_name(graph, value) != known.back()) known.push_back(source_name(graph, value));
    }
  }
  fail_unknown(option, "value", name, known, {.key = option.substr(option.find_first_not_of('-'))});
}

std::vector<NamedValue> node_values(const Graph& graph) {
  std::vector<NamedValue> values;
  for (const Node& node : graph.nodes()) {
    if (role_of(node) != OperatorRole::kComputes) continue;
    for (size_t i = 0; i < result_count(node); ++i) {
      const NodeInput value = NodeInput::of(node.name, i);
      values.push_back({value_name(value), value});
    }
  }
  return values;
}

void compute_values(Graph graph, std::span<const Tensor> inputs, std::vector<NamedValue>& values,
                    const NetworkValueOptions& options,
                    const std::function<std::unique_ptr<const Program>(Graph)>& compile) {
  Node& output = graph.node(graph.nodes().back().name);
  const std::span<NamedValue> inside = std::span(values).subspan(output.inputs.size());
  if (!options.before_quantization)
    for (const NamedValue& value : inside) output.inputs.push_back(value.source);
  auto observation = Observation::of_none(ObservedValues::kBeforeQuantization);
  const auto observe = [&](const Node& node, std::string_view operand, const Tensor& seen) {
    for (NamedValue& value : inside) {
      const NodeInput& source = value.source;
      if (source.node == node.name && operand == fmt::format("data_out_{}", source.result))
        value.tensor = seen.clone();
    }
  };
  const auto types = options.as_integers ? result_types(graph) : std::map<std::string, CodeType>();
  const std::unique_ptr<const Program> program = compile(std::move(graph));
  if (options.before_quantization) observation.see = observe;
  for (const NamedValue& value : inside)
    observation.operands->emplace(value.source.node, fmt::format("data_out_{}", value.source.result));
  const std::vector<Tensor> results = program->run(inputs, observation);
  for (size_t i = 0; i < results.size(); ++i) values[i].tensor = results[i];
  if (!options.as_integers) return;
  for (NamedValue& value : values) value.tensor = as_integers(types, value.source, value.tensor);
}

}  // namespace detent
