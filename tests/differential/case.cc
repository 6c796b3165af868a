#include "case.h"

#include <algorithm>
#include <set>

#include "detent/files/array_files.h"
#include "detent/files/file.h"

namespace detent {
namespace {

/// Small graphs mostly: what fails is found in them too, and there are more of them in an hour.
int64_t node_count(Random& random) { return random.chance(0.3) ? 1 : random.between(2, 9); }

/// Whether ONNX Runtime has the operator: it has not all for float64, and casts from and to float16.
bool has_float(std::string_view op, DType dtype, int64_t opset) {
  constexpr int64_t kInfinityOfAllFloats = 20;
  static const std::set<std::string_view> without = {"Acos",
                                                     "Acosh",
                                                     "Asin",
                                                     "Asinh",
                                                     "Atan",
                                                     "Atanh",
                                                     "AveragePool",
                                                     "BiasGelu",
                                                     "Celu",
                                                     "Conv",
                                                     "ConvTranspose",
                                                     "Cosh",
                                                     "Elu",
                                                     "Erf",
                                                     "FastGelu",
                                                     "GRU",
                                                     "Gelu",
                                                     "GlobalAveragePool",
                                                     "GlobalMaxPool",
                                                     "HardSigmoid",
                                                     "HardSwish",
                                                     "Hardmax",
                                                     "InstanceNormalization",
                                                     "LSTM",
                                                     "LeakyRelu",
                                                     "LpPool",
                                                     "Mean",
                                                     "MeanVarianceNormalization",
                                                     "Mish",
                                                     "NonZero",
                                                     "OneHot",
                                                     "PRelu",
                                                     "QuickGelu",
                                                     "RNN",
                                                     "Resize",
                                                     "Selu",
                                                     "Sinh",
                                                     "Softplus",
                                                     "Softsign",
                                                     "Tan",
                                                     "ThresholdedRelu",
                                                     "Upsample"};
  static const std::set<std::string_view> without_half = {"BiasGelu", "Celu", "CumSum",
                                                          "MeanVarianceNormalization", "Range"};
  if (dtype == DType::kFloat16)
    return !without_half.contains(op) && (op != "IsInf" || opset >= kInfinityOfAllFloats);
  return dtype == DType::kFloat32 || !without.contains(op);
}

}  // namespace

const std::vector<OperatorGenerator>& all_operator_generators() {
  static const std::vector<OperatorGenerator> all = [] {
    std::vector<OperatorGenerator> joined;
    for (const auto& list :
         {function_generators(), pair_generators(), reduction_generators(), shape_generators(),
          index_generators(), layer_generators(), pooling_generators(), normalization_generators(),
          recurrent_generators(), code_generators(), microsoft_generators(), quantized_generators(),
          feature_generators(), pattern_generators(), subgraph_generators()})
      joined.insert(joined.end(), list.begin(), list.end());
    return joined;
  }();
  return all;
}

Case generated_case(uint64_t seed, uint64_t index) {
  GraphWriter writer(seed, index);
  std::vector<const OperatorGenerator*> known;
  for (const OperatorGenerator& generator : all_operator_generators()) {
    if (generator.since <= writer.opset && writer.opset <= generator.until) known.push_back(&generator);
  }
  for (int64_t left = node_count(writer.random); left > 0; --left) {
    const OperatorGenerator& generator = *writer.random.of(known);
    writer.real = writer.random.of(writer.reals());
    if (!has_float(generator.op, writer.real, writer.opset)) writer.real = DType::kFloat32;
    generator.write(writer, generator.op);
  }
  writer.finish();
  Case generated{writer.model(), writer.inputs(), writer.values(), writer.outputs(), writer.model().graph()};
  if (writer.random.chance(0.2)) wrap_nodes(generated, writer.random);
  return generated;
}

Case reduced_case(const Case& whole, const std::vector<std::string>& outputs) {
  std::set<std::string> needed(outputs.begin(), outputs.end());
  const onnx::GraphProto& graph = whole.model.graph();
  std::vector<const onnx::NodeProto*> kept;
  for (int i = graph.node_size(); i-- > 0;) {
    const onnx::NodeProto& node = graph.node(i);
    if (std::ranges::none_of(node.output(), [&](const std::string& name) { return needed.contains(name); }))
      continue;
    kept.push_back(&node);
    insert_reads(node, needed);
  }
  Case result{whole.model, {}, whole.values, {}, whole.plain};
  onnx::GraphProto& target = *result.model.mutable_graph();
  target.clear_node();
  target.clear_input();
  target.clear_initializer();
  target.clear_output();
  for (auto node = kept.rbegin(); node != kept.rend(); ++node) *target.add_node() = **node;
  for (const auto& input : graph.input()) {
    if (needed.contains(input.name())) *target.add_input() = input;
  }
  for (const auto& tensor : graph.initializer()) {
    if (needed.contains(tensor.name())) *target.add_initializer() = tensor;
  }
  for (const auto& input : whole.inputs) {
    if (needed.contains(input.first)) result.inputs.push_back(input);
  }
  for (const GeneratedValue& value : whole.values) {
    if (std::ranges::find(outputs, value.name) == outputs.end()) continue;
    result.outputs.push_back(value);
    *target.add_output() = output_info(value);
  }
  return result;
}

void write_case(const Case& generated, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "model.onnx", std::ios::binary) << generated.model.SerializeAsString();
  for (const auto& [name, tensor] : generated.inputs) write_npy(folder / (name + ".npy"), tensor);
}

}  // namespace detent
