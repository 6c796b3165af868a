#include <algorithm>
#include <numeric>

#include "case.h"
#include "detent/core/convert.h"

namespace detent {
namespace {

/// A scale or some, powers of two, so that what is divided by them lies on a grid and ties are ties.
GeneratedValue scales(GraphWriter& writer, const Shape& shape, DType dtype = DType::kFloat32) {
  Tensor tensor(DType::kFloat32, shape);
  for (float& scale : tensor.values<float>()) scale = writer.random.of({0.125F, 0.25F, 0.5F, 1.0F, 0.0625F});
  tensor = to_dtype(tensor, dtype);
  const Numbers numbers{1, 0.0625, 0, true};
  return writer.random.chance(0.1) ? writer.input_of(tensor, numbers) : writer.constant(tensor, numbers);
}

GeneratedValue zero_points(GraphWriter& writer, DType dtype, const Shape& shape) {
  Random& random = writer.random;
  Tensor tensor(dtype, shape);
  for (std::byte& byte : tensor.bytes()) {
    if (dtype == DType::kUInt8) byte = static_cast<std::byte>(random.of<int>({0, 128, 3, 200, 255}));
    if (dtype == DType::kInt8) byte = static_cast<std::byte>(random.of<int>({0, 0, 5, 256 - 7, 127}));
  }
  return random.chance(0.1) ? writer.input_of(tensor, {255, 1}) : writer.constant(tensor, {255, 1});
}

/// Dtype that is rounded to codes: float16 too from opset 19 on.
DType rounded_dtype(const GraphWriter& writer) {
  constexpr int64_t kHalfSince = 19;
  return writer.real == DType::kFloat16 && writer.is_at_least(kHalfSince) ? writer.real : DType::kFloat32;
}

DType code_dtype(Random& random) { return random.of({DType::kUInt8, DType::kInt8}); }

/// Scale, and perhaps zero point, of a tensor or of each channel along the axis.
struct Parameters {
  GeneratedValue scale;
  GeneratedValue zero_point = {};
  std::vector<OnnxAttribute> attributes = {};
};

Parameters parameters(GraphWriter& writer, DType dtype, const Shape& shape, bool must_have_zero_point) {
  Random& random = writer.random;
  Parameters result;
  Shape of_scale;
  if (writer.is_at_least(13) && !shape.empty() && random.chance(0.3)) {
    int64_t axis = 1;
    if (shape.size() == 1 || random.chance(0.6))
      result.attributes.emplace_back("axis", axis = writer.axis(std::ssize(shape)));
    of_scale = {shape[static_cast<size_t>(normal_axis(axis, std::ssize(shape)))]};
  }
  result.scale = scales(writer, of_scale, rounded_dtype(writer));
  if (must_have_zero_point || random.chance(0.75)) result.zero_point = zero_points(writer, dtype, of_scale);
  return result;
}

GeneratedValue quantized(GraphWriter& writer, const GeneratedValue& x, DType dtype, const Parameters& with) {
  return writer.node("QuantizeLinear", {x, with.scale, with.zero_point}, with.attributes,
                     {dtype, x.shape, {255, 1}});
}

GeneratedValue dequantized(GraphWriter& writer, const GeneratedValue& x, const Parameters& with) {
  return writer.node("DequantizeLinear", {x, with.scale, with.zero_point}, with.attributes,
                     {with.scale.dtype, x.shape, {512, 0.0625}});
}

Wanted exact_float(const GraphWriter& writer) {
  return {.dtypes = {rounded_dtype(writer)}, .must_be_exact = true};
}

void write_quantize(GraphWriter& writer, const std::string&) {
  const DType dtype = code_dtype(writer.random);
  const GeneratedValue x = writer.operand(exact_float(writer));
  quantized(writer, x, dtype, parameters(writer, dtype, x.shape, dtype == DType::kInt8));
}

void write_dequantize(GraphWriter& writer, const std::string&) {
  const GeneratedValue x =
      writer.operand({.dtypes = {DType::kUInt8, DType::kInt8, DType::kInt32}, .may_be_wild = true});
  Parameters with = parameters(writer, x.dtype, x.shape, false);
  if (x.dtype == DType::kInt32) with.zero_point = {};
  if (x.dtype == DType::kInt32 && x.numbers.is_wild) return;
  dequantized(writer, x, with);
}

/// A scale for each block of an axis, of codes that are constant or computed.
void write_dequantize_blocks(GraphWriter& writer, const std::string&) {
  Random& random = writer.random;
  const DType dtype = code_dtype(random);
  const GeneratedValue x = random.chance(0.5)
                               ? writer.source(dtype, writer.shape(1, 3, false))
                               : writer.operand({.dtypes = {dtype}, .least_rank = 1, .may_be_empty = false});
  const int64_t axis = writer.axis(x.rank());
  const auto at = static_cast<size_t>(normal_axis(axis, x.rank()));
  const int64_t block = random.between(1, x.shape[at]);
  Shape shape = x.shape;
  shape[at] = (shape[at] + block - 1) / block;
  Parameters with{.scale = scales(writer, shape), .attributes = {{"axis", axis}, {"block_size", block}}};
  if (random.chance(0.6)) with.zero_point = zero_points(writer, dtype, shape);
  dequantized(writer, x, with);
}

/// Both, as quantized networks have them, also of a constant.
void write_code_rounding(GraphWriter& writer, const std::string&) {
  const DType dtype = code_dtype(writer.random);
  const GeneratedValue x = writer.random.chance(0.4)
                               ? writer.source(rounded_dtype(writer), writer.shape(0, 4))
                               : writer.operand(exact_float(writer));
  const Parameters with = parameters(writer, dtype, x.shape, dtype == DType::kInt8);
  dequantized(writer, quantized(writer, x, dtype, with), with);
}

void write_dynamic(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x =
      writer.operand({.dtypes = {DType::kFloat32}, .must_be_exact = true, .may_be_empty = false});
  // The scale is no power of two: codes in the middle go to either neighbour.
  writer.node(op, {x}, {},
              {{DType::kUInt8, x.shape, {255, 0, 1}, false},
               {DType::kFloat32, {}, {4, 0, 1e-6}, false},
               {DType::kUInt8, {}, {255, 0, 1}, false}});
}

/// Codes of a whole range, or of half of it: on processors without VNNI ONNX Runtime's sums of two products
/// of uint8 and int8 saturate beyond.
GeneratedValue codes(GraphWriter& writer, DType dtype, const Shape& shape, bool is_constant,
                     bool is_half = false) {
  Tensor tensor(dtype, shape);
  for (std::byte& byte : tensor.bytes()) {
    const int64_t code = is_half ? writer.random.between(-64, 63) : writer.random.between(-128, 127);
    byte = static_cast<std::byte>(code & 255);
  }
  return is_constant ? writer.constant(tensor, {255, 1}) : writer.input_of(tensor, {255, 1});
}

void write_matmul_integer(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t inner = random.between(1, 5);
  const DType of_a = code_dtype(random);
  const DType of_b = code_dtype(random);
  Shape shape_a = {random.between(1, 4), inner};
  if (random.chance(0.3)) shape_a.insert(shape_a.begin(), 2);
  const Shape shape_b = {inner, random.between(1, 4)};
  const GeneratedValue a = codes(writer, of_a, shape_a, false);
  const GeneratedValue b =
      codes(writer, of_b, shape_b, random.chance(0.6), of_a != of_b && of_b == DType::kInt8);
  std::vector<GeneratedValue> inputs = {a, b, GraphWriter::absent(), GraphWriter::absent()};
  if (random.chance(0.6)) inputs[2] = zero_points(writer, of_a, {});
  if (random.chance(0.6))
    inputs[3] = zero_points(writer, of_b, random.chance(0.7) ? Shape{} : Shape{shape_b[1]});
  Shape shape = shape_a;
  shape.back() = shape_b[1];
  writer.node(op, inputs, {}, {DType::kInt32, shape, {0x1p19, 1}});
}

/// A convolution of codes: what a QLinearConv and a ConvInteger have in common.
struct CodeConvolution {
  GeneratedValue x;
  GeneratedValue weight;
  std::vector<OnnxAttribute> attributes;
  Shape shape;
};

CodeConvolution code_convolution(GraphWriter& writer, DType of_x, DType of_weight) {
  Random& random = writer.random;
  const int64_t groups = random.of<int64_t>({1, 1, 2});
  const int64_t channels = groups * random.between(1, 2);
  const int64_t outputs = groups * random.between(1, 2);
  const Shape shape = {random.between(1, 2), channels, random.between(2, 5), random.between(2, 5)};
  const Shape kernel = {random.between(1, 2), random.between(1, 2)};
  const Shape pads = {random.between(0, 1), random.between(0, 1), random.between(0, 1), random.between(0, 1)};
  const Shape stride = {random.between(1, 2), random.between(1, 2)};
  CodeConvolution result;
  result.x = codes(writer, of_x, shape, false);
  result.weight = codes(writer, of_weight, {outputs, channels / groups, kernel[0], kernel[1]},
                        random.chance(0.8), of_x != of_weight && of_weight == DType::kInt8);
  result.attributes = {{"pads", pads}, {"strides", stride}, {"group", groups}};
  if (random.chance(0.5)) result.attributes.emplace_back("kernel_shape", kernel);
  result.shape = {shape[0], outputs, (shape[2] + pads[0] + pads[2] - kernel[0]) / stride[0] + 1,
                  (shape[3] + pads[1] + pads[3] - kernel[1]) / stride[1] + 1};
  return result;
}

void write_conv_integer(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const DType of_x = DType::kUInt8;
  const DType of_weight = DType::kUInt8;
  const CodeConvolution drawn = code_convolution(writer, of_x, of_weight);
  std::vector<GeneratedValue> inputs = {drawn.x, drawn.weight, GraphWriter::absent(), GraphWriter::absent()};
  if (random.chance(0.6)) inputs[2] = zero_points(writer, of_x, {});
  if (random.chance(0.6)) inputs[3] = zero_points(writer, of_weight, {});
  writer.node(op, inputs, drawn.attributes, {DType::kInt32, drawn.shape, {0x1p19, 1}});
}

void write_qlinear_conv(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const DType of_x = code_dtype(random);
  const DType of_weight = of_x == DType::kInt8 ? DType::kInt8 : code_dtype(random);
  const CodeConvolution drawn = code_convolution(writer, of_x, of_weight);
  const bool is_each = random.chance(0.3);
  const Shape of_scale = is_each ? Shape{drawn.shape[1]} : Shape{};
  Tensor bias(DType::kInt32, {drawn.shape[1]});
  for (int32_t& b : bias.values<int32_t>()) b = static_cast<int32_t>(random.between(-500, 500));
  Tensor zero(of_weight, of_scale);
  if (of_weight == DType::kUInt8) std::ranges::fill(zero.bytes(), std::byte{128});
  std::vector<GeneratedValue> inputs = {
      drawn.x,
      scales(writer, {}),
      zero_points(writer, of_x, {}),
      drawn.weight,
      scales(writer, of_scale),
      writer.constant(zero, {128, 1}),
      writer.constant(Tensor::from({}, std::vector<float>{32}), {32, 32, 0, true}),
      zero_points(writer, of_x, {})};
  if (random.chance(0.5)) inputs.push_back(writer.constant(bias, {500, 1}));
  writer.node(op, inputs, drawn.attributes, {of_x, drawn.shape, {255, 1}});
}

void write_qlinear_matmul(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const DType dtype = code_dtype(random);
  const int64_t inner = random.between(1, 5);
  const Shape shape_a = {random.between(1, 4), inner};
  const Shape shape_b = {inner, random.between(1, 4)};
  const GeneratedValue a = codes(writer, dtype, shape_a, false);
  const GeneratedValue b = codes(writer, dtype, shape_b, random.chance(0.6));
  writer.node(op,
              {a, scales(writer, {}), zero_points(writer, dtype, {}), b, scales(writer, {}),
               zero_points(writer, dtype, {}),
               writer.constant(Tensor::from({}, std::vector<float>{32}), {32, 32, 0, true}),
               zero_points(writer, dtype, {})},
              {}, {dtype, {shape_a[0], shape_b[1]}, {255, 1}});
}

}  // namespace

std::vector<OperatorGenerator> code_generators() {
  return {{"QuantizeLinear", 10, write_quantize},
          {"DequantizeLinear", 10, write_dequantize},
          {"DequantizeLinear", 21, write_dequantize_blocks},
          {"QuantizeLinear", 10, write_code_rounding},
          {"QuantizeLinear", 10, write_code_rounding},
          {"DynamicQuantizeLinear", 11, write_dynamic},
          {"MatMulInteger", 10, write_matmul_integer},
          {"ConvInteger", 10, write_conv_integer},
          {"QLinearConv", 10, write_qlinear_conv},
          {"QLinearMatMul", 10, write_qlinear_matmul}};
}

}  // namespace detent
