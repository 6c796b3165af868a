#include "detent/operators/quantization/onnx_import.h"

#include <algorithm>
#include <numeric>

#include "detent/core/error.h"
#include "detent/onnx/tensor_data.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace detent {
namespace {

std::optional<int64_t> only_code(const Tensor& tensor) {
  if (tensor.numel() != 1) return std::nullopt;
  switch (tensor.dtype()) {
    case DType::kInt8:
      return tensor.values<int8_t>()[0];
    case DType::kUInt8:
      return tensor.values<uint8_t>()[0];
    case DType::kInt16:
      return tensor.values<int16_t>()[0];
    case DType::kInt32:
      return tensor.values<int32_t>()[0];
    default:
      return std::nullopt;
  }
}

Table axis_attribute(const NodeImport& node) { return {{"axis", node.integer("axis", 1)}}; }

/// scale and zero point, inputs 1 and 2.
std::vector<NodeInput> with_parameters(NodeImport& node) {
  std::vector<NodeInput> inputs = {node.input(0), quantization_operand(node, 1)};
  if (node.has_input(2)) inputs.push_back(quantization_operand(node, 2));
  return inputs;
}

DType dtype_of_codes(const NodeImport& node, size_t zero_point) {
  return node.has_input(zero_point) ? node.type(zero_point).dtype : DType::kUInt8;
}

NodeInput quantized_codes(NodeImport& node, NodeInput value, NodeInput scale, size_t zero_point) {
  std::vector<NodeInput> inputs = {std::move(value), std::move(scale)};
  const DType dtype = dtype_of_codes(node, zero_point);
  if (node.has_input(zero_point)) inputs.push_back(quantization_operand(node, zero_point));
  return node.add("quantize_linear", std::move(inputs), {{"dtype", std::string(dtype_name(dtype))}});
}

/// Code type of a QuantizeLinear: the type that holds the codes, and the model's where it has few bits.
struct QuantizedType {
  DType held = DType::kUInt8;
  const NarrowType* narrow = nullptr;
};

QuantizedType code_type(const NodeImport& node) {
  QuantizedType type;
  if (const int64_t wanted = node.integer("output_dtype", 0); wanted != 0)
    type = {dtype_of_onnx(wanted), find_narrow_type(wanted)};
  if (node.has_input(2)) type = {node.type(2).dtype, node.narrow_type(2)};
  const bool is_wide = type.narrow == nullptr && type.held != DType::kUInt8 && type.held != DType::kInt8 &&
                       type.held != DType::kInt16;
  const bool is_other = type.narrow != nullptr && type.held == DType::kInt64;
  if (is_wide || is_other)
    node.refuse(fmt::format("codes of {}", is_other ? type.narrow->name : dtype_name(type.held)));
  return type;
}

/// Codes of few bits are those of the type that holds them, clamped.
NodeInput within(NodeImport& node, NodeInput codes, const NarrowType& type) {
  const auto bound = [](double value) { return NodeImport::integer_of(static_cast<int64_t>(value)); };
  codes = node.add("maximum", {std::move(codes), bound(type.low())});
  return node.add("minimum", {std::move(codes), bound(type.high())});
}

bool has_zero_codes(NodeImport& node, size_t input) {
  const auto zeros = node.has_input(input) ? known_numbers(node, node.input(input)) : std::vector<double>();
  return zeros && std::ranges::all_of(*zeros, [](double zero) { return zero == 0; });
}

NodeInput codes_as_float(NodeImport& node, NodeInput x) {
  if (x.is_constant() || node.type_of(x).dtype == DType::kFloat32) return x;
  return node.add("cast", {std::move(x)}, {{"dtype", "float32"}});
}

/// (code - zero point) scale, with a scale for each block of a value's codes.
NodeInput values_of_blocks(NodeImport& node) {
  NodeInput codes = codes_as_float(node, node.input(0));
  if (!has_zero_codes(node, 2)) codes = node.add("sub", {codes, codes_as_float(node, scales_along(node, 2))});
  return node.add("mul", {codes, scales_along(node, 1)});
}

/// round(x / scale) + zero point within the type, likewise.
NodeInput codes_of_blocks(NodeImport& node, const QuantizedType& type) {
  NodeInput codes = node.add("round", {node.add("div", {node.input(0), scales_along(node, 1)})});
  if (!has_zero_codes(node, 2)) codes = node.add("add", {codes, codes_as_float(node, scales_along(node, 2))});
  const auto [low, high] =
      type.narrow != nullptr ? std::pair(type.narrow->low(), type.narrow->high()) : range_of_codes(type.held);
  codes = node.add("clamp", {codes, NodeImport::number_of(low), NodeImport::number_of(high)});
  return node.add("cast", {codes}, {{"dtype", std::string(dtype_name(type.held))}});
}

NodeInput integer_codes(NodeImport& node, const QuantizedType& type) {
  if (const int64_t block = block_size_of(node); block != 0) {
    const auto constant = constant_codes(node, type.held, type.narrow, axis_of(node), block);
    return constant ? node.constant_of(*constant) : codes_of_blocks(node, type);
  }
  Table attributes = axis_attribute(node);
  attributes["dtype"] = std::string(dtype_name(type.held));
  const NodeInput codes = node.add("quantize_linear", with_parameters(node), std::move(attributes));
  return type.narrow == nullptr ? codes : within(node, codes, *type.narrow);
}

bool has_float_codes(const NarrowType* narrow) { return narrow != nullptr && narrow->is_float(); }

void convert_quantize(NodeImport& node) {
  const QuantizedType type = code_type(node);
  if (has_float_codes(type.narrow)) {
    NodeInput steps = node.add("div", {node.input(0), scales_along(node, 1)});
    if (!has_zero_codes(node, 2)) steps = node.add("add", {steps, scales_along(node, 2)});
    node.set_output(0, rounded_to(node, steps, *type.narrow));
  } else {
    node.set_output(0, integer_codes(node, type));
  }
  node.set_narrow_type(0, type.narrow);
}

void convert_dequantize(NodeImport& node) {
  if (block_size_of(node) != 0 && became_blocks(node)) return;
  if (const NarrowType* narrow = node.narrow_type(0); has_float_codes(narrow)) {
    if (became_float_rounding(node, *narrow)) return;
    NodeInput codes = node.input(0);
    if (!has_zero_codes(node, 2)) codes = node.add("sub", {codes, scales_along(node, 2)});
    return node.set_output(0, node.add("mul", {codes, scales_along(node, 1)}));
  }
  if (became_rounding(node)) return;
  if (block_size_of(node) != 0) return node.set_output(0, values_of_blocks(node));
  node.set_output(0, node.add("dequantize_linear", with_parameters(node), axis_attribute(node)));
}

void convert_dynamic_quantize(NodeImport& node) {
  const NodeInput codes = node.add("dynamic_quantize_linear", {node.input(0)});
  for (size_t i = 0; i < node.output_count(); ++i) node.set_output(i, NodeInput::of(codes.node, i));
}

void convert_matmul_integer(NodeImport& node) {
  node.set_output(0, node.add("integer_matmul", code_factors(node, {0, 0, 2}, {1, 0, 3})));
}

/// Codes of a border are the zero point. `bias` is an input, or none.
NodeInput integer_convolution(NodeImport& node, const QuantizedInput& x, const QuantizedInput& weight,
                              std::optional<size_t> bias) {
  const Shape kernel = node.shape(weight.value);
  if (kernel.size() < 3) fail("a weight of shape {}, expected [out, in, ...]", shape_text(kernel));
  const ImportedWindow window = imported_window(node, std::vector<int64_t>(kernel.begin() + 2, kernel.end()));
  std::vector<NodeInput> inputs = code_factors(node, x, weight);
  if (!window.is_symmetric()) {
    const NodeInput value = inputs.size() > 2 ? inputs[2] : NodeInput::absent();
    const NodeInput borders = spatial_borders(window.before, window.after);
    inputs[0] = node.add("dynamic_pad", {inputs[0], borders, value});
  }
  if (bias) {
    inputs.resize(4);
    inputs.push_back(node.input(*bias));
  }
  return node.add("integer_convolution", std::move(inputs), convolution_attributes(node, window));
}

void convert_conv_integer(NodeImport& node) {
  node.set_output(0, integer_convolution(node, {0, 0, 2}, {1, 0, 3}, std::nullopt));
}

/// A list of scales as [O, 1, ...], to broadcast with [N, O, ...].
NodeInput scales_along_channels(NodeImport& node, NodeInput scales, size_t rank) {
  if (scales.is_constant() || node.type_of(scales).shape.size() != 1) return scales;
  std::vector<int64_t> dims(rank - 2);
  std::iota(dims.begin(), dims.end(), 1);
  return node.add("unsqueeze", {std::move(scales), NodeImport::list_of(dims)});
}

void convert_qlinear_conv(NodeImport& node) {
  if (const auto value = rounded_convolution(node)) return node.set_output(0, quantized(node, *value, 6));
  const NodeInput sums = integer_convolution(node, {0, 1, 2}, {3, 4, 5},
                                             node.has_input(8) ? std::optional<size_t>(8) : std::nullopt);
  const NodeInput scales = scales_along_channels(node, quantization_operand(node, 4), node.rank(0));
  node.set_output(0, requantized(node, sums, scale_product(node, quantization_operand(node, 1), scales), 6));
}

/// Scales of rows become a column.
void convert_qlinear_matmul(NodeImport& node) {
  auto value = rounded_linear(node, {});
  if (!value) value = rounded_product(node);
  if (value) return node.set_output(0, quantized(node, *value, 6));
  const NodeInput sums = node.add("integer_matmul", code_factors(node, {0, 1, 2}, {3, 4, 5}));
  NodeInput rows = quantization_operand(node, 1);
  if (!rows.is_constant() && node.type_of(rows).shape.size() == 1)
    rows = node.add("unsqueeze", {rows, NodeImport::list_of({-1})});
  node.set_output(0, requantized(node, sums, scale_product(node, rows, quantization_operand(node, 4)), 6));
}

}  // namespace

std::vector<NodeInput> code_factors(NodeImport& node, const QuantizedInput& a, const QuantizedInput& b) {
  std::vector<NodeInput> inputs = {node.input(a.value), node.input(b.value),
                                   quantization_operand(node, a.zero_point),
                                   quantization_operand(node, b.zero_point)};
  while (inputs.back().is_absent()) inputs.pop_back();
  return inputs;
}

NodeInput scale_product(NodeImport& node, const NodeInput& a, const NodeInput& b) {
  double x = 0;
  double y = 0;
  const double* first = a.is_constant() ? a.constant.number(x) : nullptr;
  const double* second = b.is_constant() ? b.constant.number(y) : nullptr;
  if (first != nullptr && second != nullptr)
    return NodeImport::number_of(
        static_cast<double>(static_cast<float>(*first) * static_cast<float>(*second)));
  return first != nullptr ? node.add("mul", {b, a}) : node.add("mul", {a, b});
}

NodeInput quantization_operand(NodeImport& node, size_t index) {
  if (!node.has_input(index)) return NodeInput::absent();
  const Tensor* constant = node.constant(index);
  if (constant == nullptr) return node.input(index);
  if (const auto code = only_code(*constant)) return NodeInput::of_constant(Value(*code));
  const auto number = node.number(index);
  return number ? NodeImport::number_of(*number) : node.input(index);
}

NodeInput dequantized(NodeImport& node, const QuantizedInput& codes, bool has_dimension) {
  const auto spec = rounding_to_codes(node, codes, node.type(codes.value).dtype);
  if (spec) {
    if (const auto constant = rounded_constant(node, codes, 0)) {
      const bool adds = has_dimension && constant->values.rank() == 0;
      return node.add_rounding(node.constant_of(adds ? constant->values.reshaped({1}) : constant->values),
                               *spec);
    }
    if (const auto value = rounded_value(node, codes, 0)) return *value;
  }
  std::vector<NodeInput> inputs = {node.input(codes.value), quantization_operand(node, codes.scale)};
  if (node.has_input(codes.zero_point)) inputs.push_back(quantization_operand(node, codes.zero_point));
  const NodeInput value = node.add("dequantize_linear", std::move(inputs));
  return spec ? node.add_rounding(value, *spec) : value;
}

NodeInput quantized(NodeImport& node, NodeInput value, size_t scale) {
  if (const auto spec = rounding_to_codes(node, {0, scale, scale + 1}, dtype_of_codes(node, scale + 1)))
    value = node.add_rounding(std::move(value), *spec);
  return quantized_codes(node, std::move(value), quantization_operand(node, scale), scale + 1);
}

NodeInput in_units(NodeImport& node, const NodeInput& sums, const NodeInput& unit) {
  return node.add("mul", {node.add("cast", {sums}, {{"dtype", "float32"}}), unit});
}

NodeInput requantized(NodeImport& node, const NodeInput& sums, const NodeInput& unit, size_t scale) {
  const NodeInput of_result = quantization_operand(node, scale);
  NodeInput factor;
  double numerator = 0;
  double denominator = 0;
  const double* above = unit.is_constant() ? unit.constant.number(numerator) : nullptr;
  const double* below = of_result.is_constant() ? of_result.constant.number(denominator) : nullptr;
  if (above != nullptr && below != nullptr) {
    factor =
        NodeImport::number_of(static_cast<double>(static_cast<float>(*above) / static_cast<float>(*below)));
  } else {
    factor = node.add("div", {unit, of_result});
  }
  return quantized_codes(node, in_units(node, sums, factor), NodeImport::number_of(1), scale + 1);
}

OnnxConverterList linear_code_converters() {
  return {{"QuantizeLinear", convert_quantize}, {"DequantizeLinear", convert_dequantize}};
}

OnnxConverterList quantized_converters() {
  return {{"DynamicQuantizeLinear", convert_dynamic_quantize},
          {"MatMulInteger", convert_matmul_integer},
          {"ConvInteger", convert_conv_integer},
          {"QLinearConv", convert_qlinear_conv},
          {"QLinearMatMul", convert_qlinear_matmul}};
}

}  // namespace detent
