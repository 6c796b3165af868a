#include <algorithm>

#include "detent/core/error.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"
#include "detent/operators/quantization/onnx_import.h"

namespace detent {
namespace {

// Operators of ONNX Runtime's domain, com.microsoft, as its quantizer and its optimizer write them:
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

void expect_channels_first(const NodeImport& node) {
  if (node.integer("channels_last", 0) != 0) node.refuse("channels_last");
}

/// Codes, their scale and zero point, then the same of the other operand; the result's are inputs 6 and 7.
template <const char* kName>
void convert_quantized_pair(NodeImport& node) {
  const NodeInput a = dequantized(node, {0, 1, 2}, node.rank(3) > 0);
  const NodeInput b = dequantized(node, {3, 4, 5}, node.rank(0) > 0);
  node.set_output(0, quantized(node, node.add(kName, {a, b}), 6));
}

constexpr char kQuantizedAdd[] = "add";
constexpr char kQuantizedMul[] = "mul";

/// A function of one operand, whose result's scale is input 3.
void convert_function(NodeImport& node, const char* op, Table attributes) {
  const NodeInput x = dequantized(node, {0, 1, 2});
  node.set_output(0, quantized(node, node.add(op, {x}, std::move(attributes)), 3));
}

void convert_sigmoid(NodeImport& node) { convert_function(node, "sigmoid", {}); }

void convert_quantized_leaky_relu(NodeImport& node) {
  convert_function(node, "leaky_relu", {{"negative_slope", node.number("alpha", 0.01F)}});
}

/// Normalizes over one axis, as the operator of opset 13; before, over all axes from that one on.
void convert_quantized_softmax(NodeImport& node) {
  constexpr int64_t kOfOneAxis = 13;
  const auto rank = static_cast<int64_t>(node.rank(0));
  int64_t axis = node.integer("axis", -1);
  if (axis < 0) axis += rank;
  if (node.integer("opset", kOfOneAxis) >= kOfOneAxis || axis == rank - 1)
    return convert_function(node, "softmax", {{"dim", axis}});
  const NodeInput x = dequantized(node, {0, 1, 2});
  const NodeInput result = as_rows_from(node, x, axis, [&](const NodeInput& rows) {
    return node.add("softmax", {rows}, {{"dim", -1}});
  });
  node.set_output(0, quantized(node, result, 3));
}

void convert_global_average(NodeImport& node) {
  expect_channels_first(node);
  if (node.rank(0) < 3 || node.rank(0) > 5)
    node.refuse(fmt::format("an input of {} dimensions", node.rank(0)));
  convert_function(node, fmt::format("adaptive_avg_pool{}d", node.rank(0) - 2).c_str(), {{"output_size", 1}});
}

void convert_average(NodeImport& node) {
  expect_channels_first(node);
  node.set_output(0, quantized(node, average_pooled(node, dequantized(node, {0, 1, 2})), 3));
}

/// Scale and zero point of the result, then those of each part after its codes.
void convert_quantized_concat(NodeImport& node) {
  std::vector<NodeInput> parts;
  for (size_t i = 2; i + 1 < node.input_count(); i += 3)
    parts.push_back(dequantized(node, {i, i + 1, i + 2}));
  if (parts.empty())
    fail("got {} inputs, expected a scale, a zero point and three for each part", node.input_count());
  const NodeInput joined = node.add("cat", std::move(parts), {{"dim", node.integer("axis", 1)}});
  node.set_output(0, quantized(node, joined, 0));
}

void convert_quantized_where(NodeImport& node) {
  const NodeInput a = dequantized(node, {1, 2, 3});
  const NodeInput b = dequantized(node, {4, 5, 6});
  node.set_output(0, quantized(node, node.add("where", {node.input(0), a, b}), 7));
}

NodeInput transposed_input(NodeImport& node, NodeInput x) {
  return node.add("transpose", {std::move(x)}, {{"dim0", -2}, {"dim1", -1}});
}

/// alpha op(A) op(B) + C of codes, where op transposes and C has int32 sums; in float without a scale of the
/// result.
void convert_quantized_gemm(NodeImport& node) {
  const bool is_plain = node.integer("transA", 0) == 0 && node.number("alpha", 1) == 1;
  const auto value = is_plain
                         ? rounded_linear(node, {.transposed = node.integer("transB", 0) != 0,
                                                 .bias = node.has_input(6) ? std::optional(6) : std::nullopt,
                                                 .result_scale = 7})
                         : std::nullopt;
  if (value) return node.set_output(0, node.has_input(7) ? quantized(node, *value, 7) : *value);
  std::vector<NodeInput> factors = code_factors(node, {0, 1, 2}, {3, 4, 5});
  if (node.integer("transA", 0) != 0) factors[0] = transposed_input(node, factors[0]);
  if (node.integer("transB", 0) != 0) factors[1] = transposed_input(node, factors[1]);
  NodeInput sums = node.add("integer_matmul", std::move(factors));
  if (node.has_input(6)) sums = node.add("add", {sums, node.input(6)});
  NodeInput unit = scale_product(node, quantization_operand(node, 1), quantization_operand(node, 4));
  if (const double alpha = node.number("alpha", 1); alpha != 1)
    unit = scale_product(node, unit, NodeImport::number_of(alpha));
  node.set_output(0, node.has_input(7) ? requantized(node, sums, unit, 7) : in_units(node, sums, unit));
}

/// Codes of both, their scales, their zero points, and a bias in float.
void convert_matmul_to_float(NodeImport& node) {
  const NodeInput sums = node.add("integer_matmul", code_factors(node, {0, 2, 4}, {1, 3, 5}));
  const NodeInput unit = scale_product(node, quantization_operand(node, 2), quantization_operand(node, 3));
  NodeInput result = in_units(node, sums, unit);
  if (node.has_input(6)) result = node.add("add", {result, node.input(6)});
  node.set_output(0, result);
}

/// x sigmoid(alpha x)
void convert_quick_gelu(NodeImport& node) {
  const NodeInput x = node.input(0);
  const double alpha = node.number("alpha", 1.702F);
  if (alpha == 1) return node.set_output(0, node.add("silu", {x}));
  const NodeInput scaled = node.add("mul", {x, NodeImport::number_of(alpha)});
  node.set_output(0, node.add("mul", {x, node.add("sigmoid", {scaled})}));
}

/// With a bias that is added first, if there is one.
template <bool kTanh>
void convert_gelu_variant(NodeImport& node) {
  const NodeInput x = node.has_input(1) ? added(node, 0, 1) : node.input(0);
  node.set_output(0, node.add("gelu", {x}, {{"approximate", kTanh ? "tanh" : "none"}}));
}

/// A dimension of 1 at the place that input 1 says.
void convert_expand_dims(NodeImport& node) {
  const auto axis = node.integer(size_t{1});
  if (!axis) node.refuse("an axis that is not known before the network runs");
  node.set_output(0, node.add("unsqueeze", {node.input(0), NodeImport::list_of({*axis})}));
}

/// Distances of the rows of two matrices.
void convert_row_distances(NodeImport& node) {
  const std::string metric = node.text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") node.refuse(fmt::format("the metric \"{}\"", metric));
  const NodeInput a = node.add("unsqueeze", {node.input(0), NodeImport::list_of({1})});
  const NodeInput b = node.add("unsqueeze", {node.input(1), NodeImport::list_of({0})});
  const NodeInput difference = node.add("sub", {a, b});
  const NodeInput squares = node.add("mul", {difference, difference});
  const NodeInput sum = node.add("sum", {squares, NodeImport::list_of({-1})});
  node.set_output(0, metric == "euclidean" ? node.add("sqrt", {sum}) : sum);
}

/// z sigmoid(z), where z is x times a number.
void convert_scaled_silu(NodeImport& node) {
  const NodeInput factor = node.has_input(1) ? node.input(1) : NodeImport::number_of(node.number("alpha", 1));
  node.set_output(0, node.add("silu", {node.add("mul", {node.input(0), factor})}));
}

/// Elements in the order of their first places, these places among them, and how often each is there.
void convert_first_unique(NodeImport& node) {
  const NodeInput result = node.add("unique", {node.input(0)}, {{"dim", 0}, {"sorted", false}});
  constexpr size_t kResults[] = {0, 2, 3};
  for (size_t i = 0; i < std::size(kResults); ++i) {
    if (node.wants(i)) node.set_output(i, NodeInput::of(result.node, kResults[i]));
  }
}

}  // namespace

OnnxConverterList microsoft_converters() {
  return {{"QLinearAdd", convert_quantized_pair<kQuantizedAdd>},
          {"QLinearMul", convert_quantized_pair<kQuantizedMul>},
          {"QLinearSigmoid", convert_sigmoid},
          {"QLinearLeakyRelu", convert_quantized_leaky_relu},
          {"QLinearSoftmax", convert_quantized_softmax},
          {"QLinearGlobalAveragePool", convert_global_average},
          {"QLinearAveragePool", convert_average},
          {"QLinearConcat", convert_quantized_concat},
          {"QLinearWhere", convert_quantized_where},
          {"QGemm", convert_quantized_gemm},
          {"MatMulIntegerToFloat", convert_matmul_to_float},
          {"Gelu", convert_gelu_variant<false>},
          {"BiasGelu", convert_gelu_variant<false>},
          {"FastGelu", convert_gelu_variant<true>},
          {"QuickGelu", convert_quick_gelu},
          {"ScaledSiLU", convert_scaled_silu},
          {"Unique", convert_first_unique},
          {"ExpandDims", convert_expand_dims},
          {"CDist", convert_row_distances}};
}

}  // namespace detent
