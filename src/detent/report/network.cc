#include "detent/report/network.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "detent/core/error.h"
#include "detent/formats/groups/value_grid.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/operators.h"
#include "detent/inference/plan.h"

namespace detent {
namespace {

constexpr int64_t kBitsInFloat = 32;

/// All values of a format are listed up to so many; of more, the least, the greatest and their number.
constexpr size_t kMostListedValues = 64;

const Tensor* weights_of(const Node& node, const std::string& operand, const Graph* floats) {
  const Node* original = floats == nullptr ? nullptr : floats->find(node.name);
  const Parameter* parameter = (original == nullptr ? node : *original).find_parameter(operand);
  const bool is_float = parameter != nullptr && parameter->tensor.dtype() == DType::kFloat32;
  return is_float && parameter->tensor.numel() > 0 ? &parameter->tensor : nullptr;
}

/// Values that the operand can be rounded to: of several groups, in the first one.
Table grid_table(std::span<const float> values) {
  Table grid{{"count", std::ssize(values)},
             {"low", static_cast<double>(values.front())},
             {"high", static_cast<double>(values.back())}};
  if (values.size() <= kMostListedValues) {
    List listed;
    for (const float value : values) listed.emplace_back(static_cast<double>(value));
    grid["values"] = std::move(listed);
  }
  return grid;
}

/// NA where the values depend on the elements themselves, or are too many.
Value grid_value(const QuantSpec& spec, const Tensor* weights) {
  constexpr double kMostBits = 16;
  if (block_size(spec.format) || bits_per_value(spec.format) > kMostBits) return {};
  const Tensor nothing(DType::kFloat32, {1});
  if (weights == nullptr && spec.granularity != Granularity::kTensor) return {};
  try {
    const ValueGrid grid(spec, weights == nullptr ? nothing : *weights, "");
    return grid_table(grid.values(0));
  } catch (const Error&) {
    return {};  // stochastic rounding and the like have no fixed values
  }
}

/// How many of the values lie beyond the grid, those in a cell of the histogram taken as its middle.
Value clipped_share(const ValueHistogram& histogram, const Value& grid) {
  const Table* table = grid.get_if<Table>();
  if (table == nullptr || histogram.counts.empty()) return {};
  const double low = *table->find("low")->get_if<double>();
  const double high = *table->find("high")->get_if<double>();
  const auto from = static_cast<double>(histogram.low);
  const double cell =
      (static_cast<double>(histogram.high) - from) / static_cast<double>(histogram.counts.size());
  int64_t all = 0;
  int64_t beyond = 0;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    const double middle = from + (static_cast<double>(i) + 0.5) * cell;
    all += histogram.counts[i];
    if (middle < low || middle > high) beyond += histogram.counts[i];
  }
  return static_cast<double>(beyond) / static_cast<double>(std::max<int64_t>(all, 1));
}

Table operand_table(const Node& node, const std::string& operand, const OperandHistograms& histograms,
                    const Graph* floats) {
  const std::optional<QuantSpec> rounding = node.rounding(operand);
  const QuantSpec& spec = rounding ? *rounding : *node.find_quantization(operand);
  const Tensor* weights = weights_of(node, operand, floats);
  Table table{{"operand", operand},
              {"format", std::string(format_name(spec.format))},
              {"bits", bits_per_value(spec.format)},
              {"granularity", enum_name(spec.granularity)},
              {"grid", grid_value(spec, weights)}};
  const auto seen = histograms.find({node.name, operand});
  std::optional<ValueHistogram> histogram;
  if (weights != nullptr) histogram = value_histogram(weights->values<float>());
  if (seen != histograms.end()) histogram = seen->second;
  if (!histogram) return table;
  table["histogram"] = histogram->table();
  const bool one_grid = spec.granularity == Granularity::kTensor;
  table["clipped_share"] = one_grid ? clipped_share(*histogram, *table.find("grid")) : Value();
  return table;
}

struct ParameterSize {
  int64_t values = 0;
  int64_t bits = 0;
};

ParameterSize parameter_size(const Node& node) {
  ParameterSize size;
  for (const auto& [name, parameter] : node.parameters) {
    const Tensor& tensor = parameter->tensor;
    const QuantSpec* spec = node.find_quantization(name);
    size.values += tensor.numel();
    size.bits += spec != nullptr ? storage_bits(*spec, tensor.shape()) : kBitsInFloat * tensor.numel();
  }
  if (node.body == nullptr) return size;
  for (const Node& inner : node.body->nodes()) {
    const ParameterSize of_body = parameter_size(inner);
    size.values += of_body.values;
    size.bits += of_body.bits;
  }
  return size;
}

Table node_table(const Node& node, const ValueTypes& types, const OperandHistograms& histograms,
                 const Graph* floats) {
  List reads;
  for (const NodeInput& input : node.inputs) {
    if (!input.is_constant()) reads.emplace_back(input.node);
  }
  Table table{{"name", node.name}, {"op", node.op}, {"reads", std::move(reads)}};
  const auto type = types.find(value_name(node.name));
  if (type != types.end()) table["shape"] = Value(type->second.shape);
  const ParameterSize size = parameter_size(node);
  if (size.values > 0) {
    table["parameters"] = size.values;
    table["parameter_bytes"] = (size.bits + 7) / 8;
  }
  List operands;
  for (const auto& [operand, quantizer] : node.quantization)
    operands.push_back(operand_table(node, operand, histograms, floats));
  table["operands"] = std::move(operands);
  return table;
}

}  // namespace

OperandHistograms operand_histograms(const Graph& graph, const Program& program,
                                     std::span<const Tensor> inputs) {
  OperandHistograms histograms;
  auto observation = Observation::of_none(ObservedValues::kBeforeQuantization);
  for (const Node& node : graph.nodes()) {
    for (const auto& [operand, quantizer] : node.quantization)
      observation.operands->emplace(node.name, operand);
  }
  observation.see = [&](const Node& node, std::string_view operand, const Tensor& value) {
    histograms[{node.name, std::string(operand)}] = value_histogram(value.values<float>());
  };
  if (!observation.operands->empty()) program.run(inputs, observation);
  return histograms;
}

Table network_value(const Graph& graph, const OperandHistograms& histograms, const Graph* floats) {
  const ValueTypes types = infer_shapes(graph);
  List nodes;
  for (const Node& node : graph.nodes()) nodes.push_back(node_table(node, types, histograms, floats));
  if (graph.requantization()) {
    const std::vector<PlannedNode> plan = integer_plan(graph);
    for (size_t i = 0; i < plan.size(); ++i) {
      Table& node = *nodes[i].get_if<Table>();
      node["computes_in"] = plan[i].engine == NodeEngine::kGiven ? "given" : engine_text(plan[i].engine);
      if (!plan[i].why.empty()) node["in_float_because"] = plan[i].why;
    }
  }
  return {{"name", graph.name()}, {"nodes", std::move(nodes)}};
}

}  // namespace detent
