#include <algorithm>

#include "detent/graph/operators.h"
#include "detent/passes/average_bits.h"
#include "detent/passes/passes.h"

namespace detent {
namespace {

constexpr int64_t kFloatBits = 32;

double average(int64_t bits, int64_t values) {
  return values == 0 ? 0 : static_cast<double>(bits) / static_cast<double>(values);
}

int64_t operand_bits(const Node& node, std::string_view operand, const Shape& shape) {
  const QuantSpec* spec = node.find_quantization(operand);
  return spec == nullptr ? element_count(shape) * kFloatBits : storage_bits(*spec, shape);
}

void calculate_avg_bits(Graph& graph, const NoOptions&, PassContext& context) {
  const StorageBits bits = storage_bits(graph);
  context.report(fmt::format("data_avg_bit {:.4g}\nw_avg_bit {:.4g}\nweights {} values, {} bytes\n",
                             bits.average_activation_bits(), bits.average_weight_bits(), bits.weight_values,
                             bits.weight_bytes()));
}

}  // namespace

double StorageBits::average_weight_bits() const { return average(weight_bits, weight_values); }
double StorageBits::average_activation_bits() const { return average(activation_bits, activation_values); }

StorageBits storage_bits(const Graph& graph) {
  StorageBits total;
  const auto results = infer_shapes(graph);
  for (const Node& node : graph.nodes()) {
    const std::vector<std::string> scales = node.scale_names();
    for (const auto& [name, parameter] : node.parameters) {
      const bool is_scale = std::ranges::count(scales, name) > 0;  // part of what its operand takes
      total.weight_values += is_scale ? 0 : parameter.tensor.numel();
      total.weight_bits += operand_bits(node, name, parameter.tensor.shape());
    }
    if (!find_operator(node.op).quantizable) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant()) continue;
      const Shape& shape = results.at(node.inputs[i].node).shape;
      total.activation_values += element_count(shape);
      total.activation_bits += operand_bits(node, fmt::format("data_in_{}", i), shape);
    }
  }
  return total;
}

PassInfo calculate_avg_bits_pass() {
  return make_pass("calculate_avg_bits", PassKind::kAnalysis,
                   "average bits of weights and of activations, and the size of the weights",
                   calculate_avg_bits);
}

}  // namespace detent
