#include "detent/onnx/import_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/graph/operator_arguments.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/node_form.h"

namespace detent {
namespace {

/// Whether the steps of the sums change a bias: integers are added in these.
bool rounds_bias(const Node& node, const SumForm& form) {
  constexpr double kPart = 0.01;  // of a step
  const Parameter* const bias = node.find_parameter("bias");
  if (bias == nullptr) return false;
  const auto values = bias->tensor.values<float>();
  for (size_t c = 0; c < values.size(); ++c) {
    const double rest = std::fabs(static_cast<double>(values[c]) / static_cast<double>(form.scale[c]) -
                                  static_cast<double>(form.bias[c]));
    if (rest > kPart) return true;
  }
  return false;
}

struct Read {
  std::string node;
  size_t input;
};
using Readers = std::unordered_map<std::string, std::vector<Read>>;

Readers readers_of(const Graph& graph) {
  Readers readers;
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].is_constant()) readers[value_name(node.inputs[i])].push_back({node.name, i});
    }
  }
  return readers;
}

/// Rounded again, a value would have another range, hence another scale.
bool has_scale_of_data(const Quantizer& quantizer) {
  const std::optional<QuantSpec> rounding = quantizer.effective_spec();
  return rounding && integer_codes(rounding->format) && !repeats_exactly(rounding->format);
}

/// Whether what is rounded stays as it is when it is rounded again.
bool repeats(const Quantizer& quantizer) {
  const std::optional<QuantSpec> rounding = quantizer.effective_spec();
  return rounding && repeats_exactly(rounding->format);
}

std::string operand_name(size_t input) { return fmt::format("data_in_{}", input); }

/// Weights of recurrent layers are stored as codes, and the layer reads their values.
void store_weights(Graph& graph, Node& constant, const std::vector<Read>& readers) {
  for (const Read& read : readers) {
    const auto rounding = graph.node(read.node).quantization.extract(operand_name(read.input));
    constant.quantization.try_emplace("value", rounding.mapped());
  }
}

}  // namespace

CodeComputation let_compute_on_codes(Graph& graph) {
  CodeComputation computation;
  bool all_fit = true;
  for (Node& node : graph.nodes()) {
    try {
      const std::optional<NodeForm> form = node_form(node, Requantization::kFloat);
      const SumForm* const sums = form ? std::get_if<SumForm>(&*form) : nullptr;
      if (sums != nullptr && rounds_bias(node, *sums)) computation.rounded_biases.push_back(node.name);
      continue;
    } catch (const Error&) {
      // Its sums are beyond 32 bits.
    }
    const bool has_weight = is_weighted_sum(node) && node.find_quantizer("weight") != nullptr;
    all_fit = all_fit && has_weight;
    if (!has_weight) continue;
    Parameter* const weight = node.own_parameter("weight");
    weight->tensor = fake_quantize(*node.rounding("weight"), weight->tensor);
    node.quantization.erase("weight");
    computation.in_float.push_back(node.name);
  }
  if (all_fit) graph.set_requantization(Requantization::kFloat);
  if (!all_fit) computation.rounded_biases.clear();
  return computation;
}

void move_roundings_to_operands(Graph& graph, const std::set<std::string>& roundings) {
  // By value: where one is rounded in the same way several times, it has one quantizer.
  std::unordered_map<std::string, std::vector<QuantizerRef>> quantizers;
  Readers readers = readers_of(graph);
  for (Node& rounding : graph.nodes()) {
    if (!roundings.contains(rounding.name)) continue;
    const auto given = rounding.quantization.find("data_out_0");
    const auto rounded = rounding.quantization.find("data_in_0");
    const bool is_again = rounded != rounding.quantization.end();
    if (is_again && !(rounded->second == given->second)) continue;
    const NodeInput source = rounding.inputs[0];
    auto& known = quantizers[value_name(source)];
    const auto same = std::ranges::find(known, given->second);
    const QuantizerRef quantizer = same == known.end() ? known.emplace_back(given->second) : *same;
    std::vector<Read> moved = std::move(readers[rounding.name]);
    for (const Read& read : moved) {
      Node& reader = graph.node(read.node);
      reader.inputs[read.input] = source;
      reader.quantization[operand_name(read.input)] = quantizer;
    }
    std::ranges::move(moved, std::back_inserter(readers[value_name(source)]));
    rounding.quantization.clear();
  }
}

void round_where_computed(Graph& graph) {
  const Readers readers = readers_of(graph);
  for (Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kOutput) continue;
    const bool is_constant = role_of(node) == OperatorRole::kConstant;
    for (size_t i = 0; i < result_count(node); ++i) {
      const auto found = readers.find(value_name(node.name, i));
      if (found == readers.end()) continue;
      const Read& first = found->second.front();
      const auto& quantization = graph.node(first.node).quantization;
      const auto quantizer = quantization.find(operand_name(first.input));
      if (quantizer == quantization.end()) continue;
      const bool is_always = std::ranges::all_of(found->second, [&](const Read& read) {
        const auto& others = graph.node(read.node).quantization;
        const auto other = others.find(operand_name(read.input));
        return other != others.end() && other->second.is(quantizer->second);
      });
      if (!is_always) continue;
      const auto is_weight = [&](const Read& read) {
        return is_recurrent_weight(graph.node(read.node), read.input);
      };
      if (is_constant && std::ranges::all_of(found->second, is_weight)) {
        store_weights(graph, node, found->second);
      } else if (is_constant ? repeats(*quantizer->second) : !has_scale_of_data(*quantizer->second)) {
        node.quantization.try_emplace(is_constant ? "value" : fmt::format("data_out_{}", i),
                                      quantizer->second);
      }
    }
  }
}

}  // namespace detent
