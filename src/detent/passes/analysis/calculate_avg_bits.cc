#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "detent/graph/operators.h"
#include "detent/inference/node_form.h"
#include "detent/passes/analysis/network_cost.h"
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

/// Bits of the results of all nodes, batch size 1. Those whose number the data of a run decide take nothing.
class ResultBits {
 public:
  explicit ResultBits(const Graph& graph) : results_(infer_shapes(graph)) {
    for (auto& [name, result] : results_) std::ranges::replace(result.shape, kOpenSize, int64_t{0});
    for (const Node& node : graph.nodes()) bits_[node.name] = result_bits(node);
  }

  const Shape& shape(const std::string& node) const { return results_.at(node).shape; }

  /// Bits of input i as the node reads it.
  int64_t read_bits(const Node& node, size_t i) const {
    const std::string& source = node.inputs[i].node;
    return narrower(node, fmt::format("data_in_{}", i), shape(source), bits_.at(source));
  }

 private:
  /// A format rounds what comes; where that is narrower already, it stays so.
  static int64_t narrower(const Node& node, std::string_view operand, const Shape& shape, int64_t bits) {
    return node.find_quantization(operand) == nullptr ? bits
                                                      : std::min(bits, operand_bits(node, operand, shape));
  }

  int64_t result_bits(const Node& node) const {
    const Operand& result = results_.at(node.name);
    if (!result.is_tensor()) return 0;
    const int64_t values = element_count(result.shape);
    return narrower(node, "data_out_0", result.shape,
                    moves_codes(node) ? moved_bits(node, values) : values * kFloatBits);
  }

  /// Bits of `values` values that are some of the inputs', so that each takes as much as there.
  int64_t moved_bits(const Node& node, int64_t values) const {
    int64_t read = 0;
    int64_t bits = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant() || !results_.at(node.inputs[i].node).is_tensor()) continue;
      read += element_count(shape(node.inputs[i].node));
      bits += read_bits(node, i);
    }
    return read == 0 ? 0
                     : std::llround(static_cast<double>(bits) / static_cast<double>(read) *
                                    static_cast<double>(values));
  }

  std::map<std::string, Operand, std::less<>> results_;
  std::map<std::string, int64_t, std::less<>> bits_;
};

/// Adds each value that quantizable nodes read, once, with what the widest of these readers needs.
void add_activations(const Graph& graph, StorageBits& total) {
  const ResultBits results(graph);
  std::map<std::string, int64_t, std::less<>> read;
  for (const Node& node : graph.nodes()) {
    if (!find_operator(node.op).quantizable) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant()) continue;
      int64_t& bits = read[node.inputs[i].node];
      bits = std::max(bits, results.read_bits(node, i));
    }
  }
  for (const auto& [value, bits] : read) {
    total.activation_values += element_count(results.shape(value));
    total.activation_bits += bits;
  }
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

namespace {

void add_weights(const Graph& graph, StorageBits& total) {
  std::set<const Parameter*> counted;
  for (const Node& node : graph.nodes()) {
    const auto all = node.all_parameters();
    for (size_t i = 0; i < all.size(); ++i) {
      const auto& [name, parameter] = all[i];
      if (!counted.insert(&*parameter).second) continue;   // tied weights are stored once
      const bool is_of_node = i < node.parameters.size();  // what a quantizer owns is no weight
      total.weight_values += is_of_node ? parameter->tensor.numel() : 0;
      total.weight_bits += operand_bits(node, name, parameter->tensor.shape());
    }
    if (node.body != nullptr) add_weights(*node.body, total);
  }
}

}  // namespace

StorageBits storage_bits(const Graph& graph) {
  StorageBits total;
  add_weights(graph, total);
  add_activations(graph, total);
  return total;
}

PassInfo calculate_avg_bits_pass() {
  return make_pass("calculate_avg_bits", PassKind::kAnalysis,
                   "average bits of weights and of activations, and the size of the weights",
                   calculate_avg_bits);
}

}  // namespace detent
