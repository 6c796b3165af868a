#include "detent/passes/analysis/network_cost.h"

#include <algorithm>
#include <numeric>

#include "detent/graph/operator_arguments.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Each state takes those of its rows in the weights of inputs and of states.
double recurrent_products(const Node& node, const ValueTypes& values) {
  double products = 0;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (!is_recurrent_weight(node, i)) continue;
    const Shape& weight = values.at(value_name(node.inputs[i])).shape;  // [directions, rows, columns]
    products += static_cast<double>(weight[1] * weight[2]);
  }
  return products / static_cast<double>(integer_attribute(node, "hidden_size"));
}

/// Products that each element of a node's result takes.
double products_per_element(const Node& node, const ValueTypes& values) {
  if (is_weighted_sum(node)) {
    const auto outputs = static_cast<double>(WeightChannels(node).outputs());
    return static_cast<double>(node.find_parameter("weight")->tensor.numel()) / outputs;
  }
  const std::optional<int64_t> summed = find_operator(node.op).reduction_dim("data_in_1");
  if (!summed || node.inputs.size() < 2) return 1;
  if (is_recurrent_weight(node, 1)) return recurrent_products(node, values);
  const Shape& weight = values.at(value_name(node.inputs[1])).shape;
  if (*summed < 0)
    return static_cast<double>(weight[static_cast<size_t>(*summed + static_cast<int64_t>(weight.size()))]);
  const bool is_transposed = boolean_attribute(node, "transposed");  // of a convolution
  return static_cast<double>(element_count(weight)) / static_cast<double>(weight[is_transposed ? 1 : 0]);
}

}  // namespace

std::vector<double> node_multiply_adds(const Graph& graph, NamedSizes sizes) {
  sizes[kBatchName] = 1;
  const ValueTypes values = infer_shapes(graph, sizes);
  std::vector<double> products;
  for (const Node& node : graph.nodes()) {
    const Operand& result = values.at(value_name(node.name));
    const bool counts = result.is_tensor() && !result.is_open();
    const double elements = counts ? static_cast<double>(element_count(result.shape)) : 0;
    products.push_back(counts ? elements * products_per_element(node, values) : 0);
  }
  return products;
}

double multiply_adds(const Graph& graph, const NamedSizes& sizes) {
  const std::vector<double> products = node_multiply_adds(graph, sizes);
  return std::accumulate(products.begin(), products.end(), 0.0);
}

int64_t affordable_samples(int64_t samples, double per_sample, double budget) {
  return std::clamp(static_cast<int64_t>(budget / per_sample), int64_t{1}, std::max(samples, int64_t{1}));
}

int64_t parameter_bytes(const Node& node) {
  int64_t bytes = 0;
  for (const auto& [name, parameter] : node.parameters)
    bytes += static_cast<int64_t>(parameter->tensor.byte_size());
  return bytes;
}

int64_t parameter_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const Node& node : graph.nodes()) bytes += parameter_bytes(node);
  return bytes;
}

}  // namespace detent
