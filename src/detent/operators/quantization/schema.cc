#include <algorithm>

#include "detent/graph/known_elements.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

// Quantization as operators of a network, as ONNX writes it: floats to codes and back, and sums of products
// of codes. What the network is simulated with are its operands' quantizers, not these.

bool is_code(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kUInt8 || dtype == DType::kInt16;
}

/// One for all, or one for each position of the dimension `axis`.
void expect_scales(const Node& node, std::span<const Operand> inputs, size_t index) {
  if (!is_given(inputs, index) || !inputs[index].is_tensor()) return;
  const Shape& scales = inputs[index].shape;
  const Shape& shape = tensor_shape(inputs, 0);
  if (scales.empty() || scales == Shape{1}) return;
  const size_t axis = dimension_index(integer_attribute(node, "axis"), shape.size());
  const bool fits =
      scales.size() == 1 && (scales[0] == shape[axis] || shape[axis] == kOpenSize || scales[0] == kOpenSize);
  if (!fits)
    fail("input {} has shape {}, expected one number, or one for each of dimension {} of {}", index,
         shape_text(scales), axis, shape_text(shape));
}

void expect_float(std::span<const Operand> inputs, size_t index) {
  if (inputs[index].is_tensor() && inputs[index].dtype != DType::kFloat32)
    fail("input {} is {}, expected float32", index, dtype_name(inputs[index].dtype));
}

Operand infer_quantize(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  if (inputs[0].dtype != DType::kFloat32 && inputs[0].dtype != DType::kInt32)
    fail("input 0 is {}, expected float32 or int32", dtype_name(inputs[0].dtype));
  expect_float(inputs, 1);
  expect_scales(node, inputs, 1);
  expect_scales(node, inputs, 2);
  const DType dtype = dtype_of_name(choice_attribute(node, "dtype"));
  if (is_given(inputs, 2) && inputs[2].is_tensor() && inputs[2].dtype != dtype)
    fail("input 2 is {}, expected {}", dtype_name(inputs[2].dtype), dtype_name(dtype));
  return {shape, Value(), dtype};
}

Operand infer_dequantize(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  const DType dtype = inputs[0].dtype;
  if (!is_code(dtype) && dtype != DType::kInt32)
    fail("input 0 is {}, expected int8, uint8, int16 or int32", dtype_name(dtype));
  expect_float(inputs, 1);
  expect_scales(node, inputs, 1);
  expect_scales(node, inputs, 2);
  if (is_given(inputs, 2) && inputs[2].is_tensor() && inputs[2].dtype != dtype)
    fail("input 2 is {}, expected {}", dtype_name(inputs[2].dtype), dtype_name(dtype));
  return {shape, Value(), DType::kFloat32};
}

AttributeSchema axis_attribute() {
  return {"axis", AttributeKind::kInteger, 1,
          "dimension that has a scale for each position, if there are several"};
}

OperatorSchema with_scales(const char* name, const char* help, ShapeInference infer) {
  return {.name = name,
          .help = help,
          .min_inputs = 2,
          .max_inputs = 3,
          .attributes = {axis_attribute()},
          .infer = std::move(infer),
          .dtypes = DTypeRule::kOwn,
          .takes_open_sizes = true,
          .optional_operands = {"data_in_2"}};
}

OperatorSchema quantize_linear() {
  OperatorSchema schema = with_scales(
      "quantize_linear",
      "quantized integers: x / scale, rounded to even, plus zero point, within the dtype; inputs 1 and 2 "
      "are scale and zero point",
      infer_quantize);
  schema.attributes.push_back({.name = "dtype",
                               .kind = AttributeKind::kChoice,
                               .default_value = "uint8",
                               .help = "element type of the integers",
                               .choices = {"uint8", "int8", "int16", "int32"}});
  return schema;
}

/// Both operands, and their zero points.
void expect_codes(std::span<const Operand> inputs) {
  for (size_t i = 0; i < inputs.size() && i < 4; ++i) {
    if (!is_given(inputs, i) || !inputs[i].is_tensor()) continue;
    if (!is_code(inputs[i].dtype))
      fail("input {} is {}, expected int8, uint8 or int16", i, dtype_name(inputs[i].dtype));
    if (i >= 2 && inputs[i].dtype != inputs[i - 2].dtype)
      fail("input {} is {}, expected {}", i, dtype_name(inputs[i].dtype), dtype_name(inputs[i - 2].dtype));
  }
}

/// The result of the operator on floats.
Operand infer_as(const char* op, const Node& node, std::span<const Operand> inputs) {
  Operand result = find_operator(op).infer(node, inputs);
  result.dtype = DType::kInt32;
  result.elements.reset();
  return result;
}

Operand infer_integer_matmul(const Node& node, std::span<const Operand> inputs) {
  expect_codes(inputs);
  Operand result = infer_as("matmul", node, inputs.first(2));
  if (is_given(inputs, 2) && inputs[2].is_tensor()) {
    // One for all, one for each row of a, or of its shape but for the last dimension.
    Shape zeros = inputs[2].shape;
    if (zeros.size() == 1) zeros.push_back(1);
    const Shape& a = inputs[0].shape;
    if (broadcast_shapes(a, zeros) != a)
      fail("input 2 has shape {}, which does not fit {}", shape_text(zeros), shape_text(a));
  }
  if (is_given(inputs, 3) && inputs[3].is_tensor()) {
    const Shape& b = inputs[1].shape;
    if (broadcast_shapes(b, inputs[3].shape) != b)
      fail("input 3 has shape {}, which does not fit {}", shape_text(inputs[3].shape), shape_text(b));
  }
  return result;
}

Operand infer_integer_convolution(const Node& node, std::span<const Operand> inputs) {
  expect_codes(inputs);
  const Operand result = infer_as("convolution", node, inputs.first(2));
  const auto count = [&](size_t index) {
    return is_given(inputs, index) && inputs[index].is_tensor() ? element_count(inputs[index].shape) : 1;
  };
  const int64_t channels = result.shape.at(1);
  if (count(2) != 1) fail("input 2 has shape {}, expected one number", shape_text(inputs[2].shape));
  if (count(3) != 1 && count(3) != channels)
    fail("input 3 has shape {}, expected one number or {}", shape_text(inputs[3].shape), channels);
  const bool biased = is_given(inputs, 4);
  if (biased && (tensor_shape(inputs, 4) != Shape{channels} || inputs[4].dtype != DType::kInt32))
    fail("input 4 is {} of shape {}, expected int32 of shape [{}]", dtype_name(inputs[4].dtype),
         shape_text(inputs[4].shape), channels);
  return result;
}

OperatorSchema integer_matmul() {
  return {.name = "integer_matmul",
          .help =
              "int32 matrix product of quantized integers less their zero points, inputs 2 and 3: one for "
              "all, or one "
              "for each row of input 0 or column of input 1",
          .min_inputs = 2,
          .max_inputs = 4,
          .infer = infer_integer_matmul,
          .dtypes = DTypeRule::kOwn,
          .optional_operands = {"data_in_2", "data_in_3"}};
}

std::vector<AttributeSchema> attributes_of_convolution() {
  const std::vector<OperatorSchema> family = convolution_operators();
  return std::ranges::find(family, "convolution", &OperatorSchema::name)->attributes;
}

OperatorSchema integer_convolution() {
  return {.name = "integer_convolution",
          .help =
              "int32 convolution of quantized integers less their zero points, inputs 2 and 3 (of the weight "
              "perhaps one "
              "for each channel); input 4 is an int32 bias",
          .min_inputs = 2,
          .max_inputs = 5,
          .attributes = attributes_of_convolution(),
          .infer = infer_integer_convolution,
          .dtypes = DTypeRule::kOwn,
          .optional_operands = {"data_in_2", "data_in_3", "data_in_4"}};
}

OperatorSchema dynamic_quantize_linear() {
  return {
      .name = "dynamic_quantize_linear",
      .help = "uint8 integers with the scale and zero point that cover the input's range and 0, and these",
      .infer_results = [](const Node&, std::span<const Operand> inputs) -> std::vector<Operand> {
        expect_float(inputs, 0);
        return {{tensor_shape(inputs, 0), Value(), DType::kUInt8},
                {{}, Value(), DType::kFloat32},
                {{}, Value(), DType::kUInt8}};
      },
      .result_count = [](const Node&) { return size_t{3}; },
      .dtypes = DTypeRule::kOwn,
      .takes_open_sizes = true};
}

}  // namespace

std::vector<OperatorSchema> quantized_operators() {
  return {quantize_linear(),
          with_scales("dequantize_linear",
                      "(integers - zero point) * scale; inputs 1 and 2 are scale and zero point",
                      infer_dequantize),
          dynamic_quantize_linear(), integer_matmul(), integer_convolution()};
}

}  // namespace detent
