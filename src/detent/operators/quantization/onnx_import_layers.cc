#include "detent/operators/quantization/onnx_import.h"

#include <cmath>

#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/onnx/quantizer_export.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace detent {
namespace {

constexpr QuantizedInput kInput = {0, 1, 2};
constexpr QuantizedInput kWeight = {3, 4, 5};

std::vector<float> scales_of(const QuantSpec& spec) { return given_scales(spec.format).scales; }

/// Whether the codes that go in and those that come out have one known scale each.
bool has_known_scales(const NodeImport& node, size_t result_scale) {
  const auto is_known = [&](const QuantizedInput& codes, DType dtype) {
    return rounding_to_codes(node, codes, dtype).has_value();
  };
  if (!is_known(kInput, node.type(kInput.value).dtype)) return false;
  if (!node.has_input(result_scale)) return true;
  const bool is_typed = node.has_input(result_scale + 1);
  const DType dtype = is_typed ? node.type(result_scale + 1).dtype : DType::kUInt8;
  return is_known({0, result_scale, result_scale + 1}, dtype);
}

/// A bias in units of the sums as floats. Nothing where those are not the same again as integers.
std::optional<Tensor> bias_values(const NodeImport& node, size_t index, const QuantSpec& input,
                                  const QuantSpec& weight, int64_t channels) {
  const Tensor* codes = node.constant(index);
  if (codes == nullptr || codes->dtype() != DType::kInt32 || codes->numel() != channels) return std::nullopt;
  if (codes->rank() > 0 && codes->dim(-1) != channels) return std::nullopt;
  const std::vector<float> scales = scales_of(weight);
  if (scales.size() != 1 && scales.size() != static_cast<size_t>(channels)) return std::nullopt;
  Tensor bias(DType::kFloat32, {channels});
  for (size_t c = 0; c < bias.values<float>().size(); ++c) {
    const float unit = scales_of(input)[0] * scales[scales.size() == 1 ? 0 : c];
    const int32_t code = codes->values<int32_t>()[c];
    const float value = static_cast<float>(code) * unit;
    if (std::nearbyint(static_cast<double>(value) / static_cast<double>(unit)) != code) return std::nullopt;
    bias.values<float>()[c] = value;
  }
  return bias;
}

/// A weight, and a bias if there is one.
std::optional<NodeImport::Parameters> parameters_of(NodeImport& node, const RoundedConstant& weight,
                                                    std::optional<size_t> bias_input) {
  NodeImport::Parameters parameters;
  if (bias_input) {
    const auto input = rounding_to_codes(node, kInput, node.type(kInput.value).dtype);
    const auto bias = bias_values(node, *bias_input, *input, *weight.spec, weight.values.dim(0));
    if (!bias) return std::nullopt;
    parameters.emplace_back("bias", NodeImport::parameter(*bias));
  }
  parameters.emplace(parameters.begin(), "weight", node.parameter(weight.values, *weight.spec));
  return parameters;
}

/// The constant scales in a product of those with the scale of a DynamicQuantizeLinear, and that node.
struct DynamicScale {
  std::string quantize;
  std::vector<double> weight;
};

std::optional<DynamicScale> dynamic_scale(const NodeImport& node, const Node* product) {
  if (product == nullptr || product->op != "mul") return std::nullopt;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const NodeInput& dynamic = product->inputs[i];
    if (dynamic.is_constant() || dynamic.result != 1) continue;
    const auto weight = known_numbers(node, product->inputs[1 - i]);
    if (weight && node.node(dynamic).op == "dynamic_quantize_linear")
      return DynamicScale{dynamic.node, *weight};
  }
  return std::nullopt;
}

/// Sums of codes that a DynamicQuantizeLinear gave, with its zero point, times a constant weight.
bool sums_dynamic_codes(const NodeImport& node, const Node& sums, const std::string& quantize) {
  constexpr size_t kBias = 4;
  if (sums.op != "integer_matmul" && sums.op != "integer_convolution") return false;
  if (sums.inputs.size() < 3 || sums.inputs.size() > kBias || sums.inputs[1].is_constant()) return false;
  return sums.inputs[0] == NodeInput::of(quantize) && sums.inputs[2] == NodeInput::of(quantize, 2) &&
         node.node(sums.inputs[1]).find_parameter("value") != nullptr;
}

/// A sum of codes as a layer; nothing where there is none of such a weight.
std::optional<NodeInput> as_layer(NodeImport& node, const Node& sums, const DynamicScale& scale) {
  constexpr int64_t kMostWeightDims = 5;
  const Tensor codes = node.node(sums.inputs[1]).find_parameter("value")->tensor;
  const bool is_matrix = sums.op == "integer_matmul";
  if (is_matrix ? codes.rank() != 2 : codes.rank() < 3 || codes.rank() > kMostWeightDims) return std::nullopt;
  const bool has_zero = sums.inputs.size() > 3 && !sums.inputs[3].is_absent();
  const auto zero = has_zero ? known_numbers(node, sums.inputs[3]) : std::vector<double>{0};
  const int64_t axis = is_matrix ? 1 : 0;
  const bool fits = scale.weight.size() == 1 || static_cast<int64_t>(scale.weight.size()) == codes.dim(axis);
  if (!zero || !fits) return std::nullopt;
  RoundedConstant weight = rounded_constant(codes, scale.weight, *zero, axis);
  if (!weight.spec) return std::nullopt;
  if (is_matrix) {
    weight.values = transposed_matrix(weight.values);
    weight.spec->axis = 0;
  }
  QuantSpec of_input;
  of_input.format = integer_format({.width = 8, .is_signed = false});
  Table attributes;
  if (!is_matrix) {
    for (const char* name : {"stride", "padding", "dilation", "groups"})
      attributes[name] = *sums.attributes.find(name);
  }
  const std::string op = is_matrix ? "linear" : fmt::format("conv{}d", codes.rank() - 2);
  const NodeInput input = node.node(NodeInput::of(scale.quantize)).inputs[0];
  return node.add(op, {node.add_rounding(input, of_input)}, attributes,
                  {{"weight", node.parameter(weight.values, *weight.spec)}});
}

}  // namespace

std::optional<NodeInput> dynamic_layer(NodeImport& node) {
  if (node.input_count() != 2) return std::nullopt;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node* cast = node.producer(i);
    if (cast == nullptr || cast->op != "cast" || node.type(i).dtype != DType::kFloat32) continue;
    const auto scale = dynamic_scale(node, node.producer(1 - i));
    if (!scale) continue;
    const Node sums = node.node(cast->inputs[0]);
    if (sums_dynamic_codes(node, sums, scale->quantize)) return as_layer(node, sums, *scale);
  }
  return std::nullopt;
}

std::optional<NodeInput> rounded_convolution(NodeImport& node) {
  constexpr size_t kBias = 8;
  constexpr size_t kMostWeightDims = 3;
  if (!has_known_scales(node, 6) || node.constant(0) != nullptr) return std::nullopt;
  const auto weight = rounded_constant(node, kWeight, 0);
  if (!weight || !weight->spec || weight->values.rank() < 3) return std::nullopt;
  const Shape& shape = weight->values.shape();
  const ImportedWindow window = imported_window(node, std::vector<int64_t>(shape.begin() + 2, shape.end()));
  const size_t dims = window.kernel.size();
  auto parameters = parameters_of(node, *weight, node.has_input(kBias) ? std::optional(kBias) : std::nullopt);
  if (dims > kMostWeightDims || dims + 2 != shape.size() || !parameters) return std::nullopt;
  NodeInput input = dequantized(node, kInput);
  if (!window.is_symmetric()) input = with_border(node, window, std::move(input), 0);
  return node.add(fmt::format("conv{}d", dims), {input}, convolution_attributes(node, window),
                  std::move(*parameters));
}

std::optional<NodeInput> rounded_linear(NodeImport& node, const RoundedLinear& inputs) {
  const bool is_layer = node.constant(0) == nullptr && node.rank(0) >= 1 && node.rank(kWeight.value) == 2;
  if (!is_layer || !has_known_scales(node, inputs.result_scale)) return std::nullopt;
  auto weight = rounded_constant(node, kWeight, inputs.transposed ? 0 : 1);
  if (!weight || !weight->spec) return std::nullopt;
  if (!inputs.transposed) {
    weight->values = transposed_matrix(weight->values);
    weight->spec->axis = 0;
  }
  auto parameters = parameters_of(node, *weight, inputs.bias);
  if (!parameters) return std::nullopt;
  return node.add("linear", {dequantized(node, kInput)}, {}, std::move(*parameters));
}

std::optional<NodeInput> rounded_product(NodeImport& node) {
  for (const QuantizedInput& factor : {kInput, kWeight}) {
    const DType dtype = node.type(factor.value).dtype;
    if (node.constant(factor.value) != nullptr || node.rank(factor.value) < 2 || dtype_size(dtype) != 1 ||
        !rounding_to_codes(node, factor, dtype))
      return std::nullopt;
  }
  if (!has_known_scales(node, 6)) return std::nullopt;
  const NodeInput a = dequantized(node, kInput);
  return node.add("matmul", {a, dequantized(node, kWeight)});
}

}  // namespace detent
