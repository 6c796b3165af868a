#include "detent/cli/network_info.h"

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/graph/value_sizes.h"
#include "detent/passes/analysis/accumulator_overflows.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/post_training/code_groups.h"

namespace detent {
namespace {

constexpr std::array kOftenChosen = {"fp16",
                                     "int8:granularity=channel",
                                     "int4:granularity=channel",
                                     "int4_g32",
                                     "mx:element=e4m3",
                                     "mx:element=e2m1",
                                     "nvfp4",
                                     "ternary:scaling_factor=true,granularity=channel",
                                     "binary:scaling=per_channel"};

std::string counts_text(const std::map<std::string, int64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} x {}", count, name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// A weight of a layer, a recurrent one or an embedding, and whether its channels or groups lie along an axis
/// that a format must be told.
struct Weight {
  const Tensor* tensor;
  int64_t channel_axis;
};

/// Each once, though several layers share it.
std::vector<Weight> weights_of_layers(const Graph& graph) {
  std::vector<Weight> weights;
  std::set<const Parameter*> seen;
  const auto add = [&](const Parameter* weight, int64_t channel_axis) {
    if (weight != nullptr && seen.insert(weight).second) weights.push_back({&weight->tensor, channel_axis});
  };
  const CodePlan plan = plan_codes(graph, {});
  for (const std::vector<size_t>& positions : {plan.weighted, plan.rows}) {
    for (const size_t position : positions) {
      const Node& node = graph.nodes()[position];
      add(node.find_parameter("weight"), find_operator(node.op).weight_channel_dim.value_or(0));
    }
  }
  for (const ConstantWeight& weight : plan.constants) {
    const Parameter* value = graph.nodes()[weight.constant].find_parameter("value");
    add(value, value->tensor.rank() - 2);
  }
  return weights;
}

/// Sums `bits(node, name, tensor)` over all parameters.
template <class Bits>
int64_t sum_of_parameters(const Graph& graph, const Bits& bits) {
  int64_t sum = 0;
  std::set<const Parameter*> seen;
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, parameter] : node.all_parameters())
      if (seen.insert(&*parameter).second) sum += bits(node, name, parameter->tensor);
    if (node.body != nullptr) sum += sum_of_parameters(*node.body, bits);
  }
  return sum;
}

int64_t float_bits(const Tensor& tensor) { return static_cast<int64_t>(8 * tensor.byte_size()); }

int64_t stored_bits(const Graph& graph) {
  return sum_of_parameters(graph, [](const Node& node, const std::string& name, const Tensor& tensor) {
    const QuantSpec* spec = node.find_quantization(name);
    return spec != nullptr ? storage_bits(*spec, tensor.shape()) : float_bits(tensor);
  });
}

int64_t float_bits(const Graph& graph) {
  return sum_of_parameters(graph, [](const Node& /*node*/, const std::string& /*name*/,
                                     const Tensor& tensor) { return float_bits(tensor); });
}

int64_t bytes_of(int64_t bits) { return (bits + 7) / 8; }

double share(int64_t bits, int64_t values) { return static_cast<double>(bits) / static_cast<double>(values); }

/// "h = 64, w = 64": for which the costs are counted.
std::string usual_sizes_text(const Graph& graph) {
  std::vector<std::string> parts;
  for (const auto& [symbol, size] : usual_sizes(graph)) {
    if (symbol != kBatchName) parts.push_back(fmt::format("{} = {}", symbol, size));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Which widths hold every sum, or why 32 bits do not.
std::string accumulators_text(const Graph& graph) {
  try {
    return guaranteed_widths_text(graph);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

Table network_facts(const Graph& graph) {
  const ValueTypes values = infer_shapes(graph);
  const auto output_sizes = open_shapes(graph, graph.nodes().back().inputs);
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, int64_t> operators;
  for (const Node& node : graph.nodes()) {
    const OperatorRole role = role_of(node);
    if (role == OperatorRole::kInput) {
      const TensorType& type = graph.input_types().find(node.name)->second;
      inputs.push_back(fmt::format("{} {}", source_name_or(node, 0, node.name), tensor_type_text(type)));
    } else if (role == OperatorRole::kOutput) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const std::string value = value_name(node.inputs[i]);
        const Operand& output = values.at(value);
        outputs.push_back(fmt::format("{} {} {}", source_name_or(node, i, value), dtype_name(output.dtype),
                                      open_shape_text(output_sizes[i])));
      }
    } else {
      ++operators[node.op];
    }
  }
  const std::string sizes = usual_sizes_text(graph);
  Table facts = {{"inputs", fmt::format("{}", fmt::join(inputs, ", "))},
                 {"outputs", fmt::format("{}", fmt::join(outputs, ", "))},
                 {"operators", counts_text(operators)},
                 {"parameters", graph.parameter_count()},
                 {"multiply-accumulates", static_cast<int64_t>(multiply_adds(graph))}};
  if (!sizes.empty()) facts["counted at"] = sizes;
  if (const std::string widths = accumulators_text(graph); !widths.empty()) facts["accumulators"] = widths;
  return facts;
}

std::vector<FormatSize> sizes_by_format(const Graph& graph) {
  const std::vector<Weight> weights = weights_of_layers(graph);
  int64_t values = 0;
  int64_t bits_of_floats = 0;
  for (const Weight& weight : weights) {
    values += weight.tensor->numel();
    bits_of_floats += static_cast<int64_t>(8 * weight.tensor->byte_size());
  }
  if (values == 0) return {};
  const int64_t others = float_bits(graph) - bits_of_floats;
  const int64_t now = stored_bits(graph);
  std::vector<FormatSize> sizes = {{"", bytes_of(now), share(now - others, values)}};
  for (const char* format : kOftenChosen) {
    int64_t bits = 0;
    for (const Weight& weight : weights) {
      QuantSpec spec = parse_quant_spec_text(format);
      if (spec.granularity != Granularity::kTensor) spec.axis = weight.channel_axis;
      bits += storage_bits(spec, weight.tensor->shape());
    }
    sizes.push_back({format, bytes_of(others + bits), share(bits, values)});
  }
  return sizes;
}

}  // namespace detent
