#include <algorithm>
#include <numeric>

#include "case.h"

// Operators of codes in ONNX Runtime's domain. Scales are powers of two, so that what is rounded is exact and
// ties are ties, unless a result may be apart.

namespace detent {
namespace {

const char* const kMicrosoft = "com.microsoft";
constexpr double kCodes = 255;

/// Codes with their scale and zero point, as three inputs.
struct CodeOperand {
  GeneratedValue codes;
  GeneratedValue scale;
  GeneratedValue zero_point;
};

/// With constant scales and zero points, as QLinearWhere needs them.
CodeOperand with_constant_parameters(GraphWriter& writer, const GeneratedValue& codes) {
  const float scale = writer.random.of({0.0625F, 0.25F, 1.0F});
  Tensor zero(codes.dtype, {});
  zero.bytes()[0] = static_cast<std::byte>(writer.random.of<int>({0, 3, 127, 128, 200}));
  return {codes, writer.constant(Tensor::from({}, std::vector<float>{scale}), {1, 0.0625, 0, true}),
          writer.constant(zero, {kCodes, 1})};
}

GeneratedValue drawn_scale(GraphWriter& writer, const Shape& shape, const std::vector<float>& choices) {
  Tensor tensor(DType::kFloat32, shape);
  for (float& scale : tensor.values<float>()) scale = writer.random.of(choices);
  const Numbers numbers{4, 0x1p-8, 0, true};
  return writer.random.chance(0.1) ? writer.input_of(tensor, numbers) : writer.constant(tensor, numbers);
}

GeneratedValue small_scale(GraphWriter& writer, const Shape& shape = {}) {
  return drawn_scale(writer, shape, {0.0625F, 0.125F, 0.25F, 0.5F, 1.0F});
}

GeneratedValue drawn_zero_point(GraphWriter& writer, DType dtype, const Shape& shape = {}) {
  Random& random = writer.random;
  Tensor tensor(dtype, shape);
  for (std::byte& byte : tensor.bytes()) {
    const int code = dtype == DType::kUInt8 ? random.of<int>({0, 128, 3, 200, 255})
                                            : random.of<int>({0, 0, 5, 256 - 7, 127, 128});
    byte = static_cast<std::byte>(code);
  }
  return random.chance(0.1) ? writer.input_of(tensor, {kCodes, 1}) : writer.constant(tensor, {kCodes, 1});
}

/// A result's zero point. ONNX Runtime rounds some sums with it, others without: in the middle between two
/// codes that is the same where it is even, and else a code may be apart.
GeneratedValue zero_point_of_result(GraphWriter& writer, DType dtype, Numbers& numbers) {
  Random& random = writer.random;
  Tensor tensor(dtype, {});
  const bool is_even = random.chance(0.8);
  const int code = is_even ? random.of<int>({0, 128, 4, 200, 254}) : random.of<int>({127, 5, 201, 255});
  tensor.bytes()[0] = static_cast<std::byte>(code);
  if (!is_even) numbers.apart = 1;
  return random.chance(0.1) ? writer.input_of(tensor, {kCodes, 1}) : writer.constant(tensor, {kCodes, 1});
}

/// All codes; with `is_half` those of which ONNX Runtime's sums of two products fit into 16 bits.
GeneratedValue drawn_codes(GraphWriter& writer, DType dtype, const Shape& shape, double is_constant,
                           bool is_half = false) {
  Tensor tensor(dtype, shape);
  for (std::byte& byte : tensor.bytes()) {
    const int64_t code = is_half ? writer.random.between(-64, 63) : writer.random.between(-128, 127);
    byte = static_cast<std::byte>(code & 255);
  }
  return writer.random.chance(is_constant) ? writer.constant(tensor, {kCodes, 1})
                                           : writer.input_of(tensor, {kCodes, 1});
}

DType drawn_dtype(Random& random) { return random.of({DType::kUInt8, DType::kInt8}); }

/// Codes of the graph, or new ones.
GeneratedValue codes_operand(GraphWriter& writer, DType dtype, int64_t least_rank, int64_t most_rank) {
  if (writer.random.chance(0.5)) {
    return writer.operand({.dtypes = {dtype},
                           .least_rank = least_rank,
                           .most_rank = most_rank,
                           .may_be_wild = true,
                           .may_be_empty = false});
  }
  return drawn_codes(writer, dtype, writer.shape(least_rank, most_rank, false), 0.1);
}

CodeOperand with_parameters(GraphWriter& writer, const GeneratedValue& codes) {
  return {codes, small_scale(writer), drawn_zero_point(writer, codes.dtype)};
}

void push(std::vector<GeneratedValue>& inputs, const CodeOperand& operand) {
  inputs.insert(inputs.end(), {operand.codes, operand.scale, operand.zero_point});
}

void write_codes_pair(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue a = codes_operand(writer, drawn_dtype(random), 0, 4);
  Shape shape = a.shape;
  for (int64_t& size : shape) {
    if (random.chance(0.25)) size = 1;
  }
  if (!shape.empty() && random.chance(0.3)) shape.erase(shape.begin());
  std::vector<GeneratedValue> inputs;
  const CodeOperand first = {a, small_scale(writer), drawn_zero_point(writer, a.dtype)};
  const CodeOperand second = {drawn_codes(writer, a.dtype, shape, 0.4), small_scale(writer),
                              drawn_zero_point(writer, a.dtype)};
  const bool turns = random.chance(0.5);
  push(inputs, turns ? second : first);
  push(inputs, turns ? first : second);
  inputs.push_back(drawn_scale(writer, {}, {0.25F, 1.0F, 4.0F}));
  Numbers numbers{kCodes, 1};
  inputs.push_back(zero_point_of_result(writer, a.dtype, numbers));
  writer.node(op, inputs, {}, {a.dtype, a.shape, numbers, numbers.apart == 0}, kMicrosoft);
}

void write_codes_function(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = codes_operand(writer, drawn_dtype(random), 1, 4);
  std::vector<GeneratedValue> inputs;
  push(inputs, with_parameters(writer, x));
  inputs.push_back(op == "QLinearSigmoid" ? drawn_scale(writer, {}, {0x1p-8F, 0x1p-7F})
                                          : drawn_scale(writer, {}, {0.125F, 0.5F, 2.0F}));
  inputs.push_back(drawn_zero_point(writer, x.dtype));
  std::vector<OnnxAttribute> attributes;
  if (op == "QLinearLeakyRelu" && random.chance(0.8))
    attributes.emplace_back("alpha", random.of({0.25F, 0.5F, 0.1F, 0.0F}));
  writer.node(op, inputs, attributes, {x.dtype, x.shape, {kCodes, 1}}, kMicrosoft);
}

/// Exponentials from a table: a code may be apart by one. With other scales and zero points ONNX Runtime
/// makes another code of a probability of 1, which wraps around.
void write_codes_softmax(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = codes_operand(writer, drawn_dtype(random), 1, 4);
  std::vector<GeneratedValue> inputs;
  push(inputs, with_parameters(writer, x));
  inputs.push_back(writer.constant(Tensor::from({}, std::vector<float>{0x1p-7F}), {0x1p-7, 0x1p-7, 0, true}));
  Tensor lowest(x.dtype, {});
  if (x.dtype == DType::kInt8) lowest.bytes()[0] = std::byte{128};
  inputs.push_back(writer.constant(lowest, {kCodes, 1}));
  const int64_t opset = random.chance(0.7) ? 13 : 12;
  const int64_t axis = random.chance(0.5) ? -1 : random.between(-x.rank(), x.rank() - 1);
  Numbers numbers{kCodes, 1};
  numbers.apart = 1;
  writer.node(op, inputs, {{"opset", opset}, {"axis", axis}}, {x.dtype, x.shape, numbers, false}, kMicrosoft);
}

/// A whole number of codes in each window, of which there is a power of two, so that their mean is exact.
void write_codes_pool(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t dims = random.of<int64_t>({1, 2, 2, 3});
  Shape shape = {random.between(1, 2), random.between(1, 3)};
  Shape kernel;
  Shape stride;
  Shape pads(static_cast<size_t>(2 * dims), 0);
  for (int64_t i = 0; i < dims; ++i) {
    kernel.push_back(random.of<int64_t>({1, 2, 2, 4}));
    stride.push_back(random.between(1, 3));
    shape.push_back(kernel.back() + random.between(0, 4));
  }
  const bool counts = random.chance(0.5);
  for (int64_t& pad : pads) {
    const auto of = kernel[static_cast<size_t>(&pad - pads.data()) % kernel.size()];
    if (counts && of > 1) pad = random.between(0, 1);
  }
  const bool ceils = random.chance(0.25);
  const GeneratedValue x = drawn_codes(writer, drawn_dtype(random), shape, 0.1);
  Shape result = {shape[0], shape[1]};
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t before = pads[i];
    const int64_t rest = shape[i + 2] + before + pads[i + kernel.size()] - kernel[i];
    int64_t count = rest / stride[i] + 1;
    if (ceils && rest % stride[i] != 0 && count * stride[i] < shape[i + 2] + before) ++count;
    result.push_back(count);
  }
  std::vector<GeneratedValue> inputs;
  push(inputs, with_parameters(writer, x));
  inputs.push_back(drawn_scale(writer, {}, {0.0625F, 0.25F, 0.5F}));
  Numbers numbers{kCodes, 1};
  inputs.push_back(zero_point_of_result(writer, x.dtype, numbers));
  std::vector<OnnxAttribute> attributes = {{"kernel_shape", kernel}, {"strides", stride}, {"pads", pads}};
  if (counts) attributes.emplace_back("count_include_pad", 1);
  if (ceils) attributes.emplace_back("ceil_mode", 1);
  writer.node(op, inputs, attributes, {x.dtype, result, numbers, numbers.apart == 0}, kMicrosoft);
}

void write_codes_global_pool(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  Shape shape = {random.between(1, 2), random.between(1, 3)};
  for (int64_t i = random.between(1, 3); i > 0; --i) shape.push_back(random.of<int64_t>({1, 2, 4}));
  const GeneratedValue x = drawn_codes(writer, drawn_dtype(random), shape, 0.1);
  std::vector<GeneratedValue> inputs;
  push(inputs, with_parameters(writer, x));
  inputs.push_back(drawn_scale(writer, {}, {0.0625F, 0.25F, 0.5F}));
  inputs.push_back(drawn_zero_point(writer, x.dtype));
  std::fill(shape.begin() + 2, shape.end(), 1);
  writer.node(op, inputs, {}, {x.dtype, shape, {kCodes, 1}}, kMicrosoft);
}

void write_codes_concat(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const DType dtype = drawn_dtype(random);
  const GeneratedValue first = codes_operand(writer, dtype, 1, 4);
  const int64_t axis = random.between(-first.rank(), first.rank() - 1);
  const auto dim = static_cast<size_t>(normal_axis(axis, first.rank()));
  std::vector<GeneratedValue> inputs = {drawn_scale(writer, {}, {0.125F, 0.5F, 1.0F}),
                                        drawn_zero_point(writer, dtype)};
  push(inputs, {first, small_scale(writer), drawn_zero_point(writer, dtype)});
  Shape shape = first.shape;
  for (int64_t i = random.between(0, 2); i > 0; --i) {
    Shape part = first.shape;
    part[dim] = random.between(1, 3);
    shape[dim] += part[dim];
    push(inputs,
         {drawn_codes(writer, dtype, part, 0.3), small_scale(writer), drawn_zero_point(writer, dtype)});
  }
  writer.node(op, inputs, {{"axis", axis}}, {dtype, shape, {kCodes, 1}}, kMicrosoft);
}

void write_codes_where(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = codes_operand(writer, drawn_dtype(random), 1, 4);
  const GeneratedValue y = drawn_codes(writer, x.dtype, x.shape, 0.3);
  const GeneratedValue condition = writer.broadcasting(x.shape, {.dtypes = {DType::kBool}});
  std::vector<GeneratedValue> inputs = {condition};
  push(inputs, with_constant_parameters(writer, x));
  push(inputs, with_constant_parameters(writer, y));
  const CodeOperand result = with_constant_parameters(writer, x);
  inputs.insert(inputs.end(), {result.scale, result.zero_point});
  const Shape shape = broadcast_shape(condition.shape, x.shape);
  writer.node(op, inputs, {}, {x.dtype, shape, {kCodes, 1}}, kMicrosoft);
}

/// Two matrices of codes, and what a Gemm and a MatMul of them have in common.
struct CodeMatrices {
  CodeOperand a;
  CodeOperand b;
  int64_t rows;
  int64_t inner;
  int64_t columns;
};

CodeMatrices matrices(GraphWriter& writer, bool turns_a, bool turns_b) {
  Random& random = writer.random;
  CodeMatrices drawn{{}, {}, random.between(1, 4), random.between(1, 6), random.between(1, 4)};
  const DType of_a = drawn_dtype(random);
  const DType of_b = of_a == DType::kInt8 ? DType::kInt8 : drawn_dtype(random);
  const bool is_half = of_a != of_b;
  drawn.a.codes = drawn_codes(writer, of_a,
                              turns_a ? Shape{drawn.inner, drawn.rows} : Shape{drawn.rows, drawn.inner}, 0.1);
  drawn.b.codes = drawn_codes(writer, of_b,
                              turns_b ? Shape{drawn.columns, drawn.inner} : Shape{drawn.inner, drawn.columns},
                              0.6, is_half);
  const Shape each = random.chance(0.3) ? Shape{drawn.columns} : Shape{};
  drawn.a.scale = small_scale(writer);
  drawn.a.zero_point = drawn_zero_point(writer, of_a);
  drawn.b.scale = small_scale(writer, each);
  drawn.b.zero_point = drawn_zero_point(writer, of_b, each);
  return drawn;
}

/// Codes again with a scale of the result, else floats.
void write_codes_gemm(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const bool turns_a = random.chance(0.25);
  const bool turns_b = random.chance(0.5);
  const CodeMatrices drawn = matrices(writer, turns_a, turns_b);
  std::vector<GeneratedValue> inputs;
  push(inputs, drawn.a);
  push(inputs, drawn.b);
  inputs.push_back(GraphWriter::absent());
  if (random.chance(0.6)) {
    Tensor bias(DType::kInt32,
                random.of({Shape{drawn.columns}, Shape{drawn.columns}, Shape{1, drawn.columns}}));
    for (int32_t& b : bias.values<int32_t>()) b = static_cast<int32_t>(random.between(-500, 500));
    inputs[6] = random.chance(0.8) ? writer.constant(bias, {500, 1}) : writer.input_of(bias, {500, 1});
  }
  std::vector<OnnxAttribute> attributes = {{"transA", turns_a ? 1 : 0}, {"transB", turns_b ? 1 : 0}};
  if (random.chance(0.3)) attributes.emplace_back("alpha", random.of({0.5F, 2.0F, 1.0F}));
  const Shape shape = {drawn.rows, drawn.columns};
  if (random.chance(0.3)) {
    writer.node(op, inputs, attributes, {DType::kFloat32, shape, {0x1p18, 0x1p-9}}, kMicrosoft);
    return;
  }
  inputs.push_back(drawn_scale(writer, {}, {4.0F, 32.0F, 128.0F}));
  inputs.push_back(drawn_zero_point(writer, drawn.a.codes.dtype));
  writer.node(op, inputs, attributes, {drawn.a.codes.dtype, shape, {kCodes, 1}}, kMicrosoft);
}

void write_codes_to_float(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const CodeMatrices drawn = matrices(writer, false, false);
  std::vector<GeneratedValue> inputs = {drawn.a.codes, drawn.b.codes,      drawn.a.scale,
                                        drawn.b.scale, drawn.a.zero_point, drawn.b.zero_point};
  if (random.chance(0.25)) inputs[4] = GraphWriter::absent();
  if (random.chance(0.25)) inputs[5] = GraphWriter::absent();
  if (random.chance(0.5)) inputs.push_back(writer.source(DType::kFloat32, {drawn.columns}));
  const Shape shape = {drawn.rows, drawn.columns};
  writer.node(op, inputs, {}, {DType::kFloat32, shape, {0x1p19, 0x1p-8}}, kMicrosoft);
}

/// Products of matrices in batches, with a scale and a zero point for each column.
void write_linear_matmul(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const DType of_a = drawn_dtype(random);
  const DType of_b = of_a == DType::kInt8 ? DType::kInt8 : drawn_dtype(random);
  const int64_t inner = random.between(1, 6);
  const int64_t columns = random.between(1, 4);
  Shape of_left = {random.between(1, 4), inner};
  Shape of_right = {inner, columns};
  Shape batch;
  if (random.chance(0.5)) batch = {random.between(1, 2)};
  if (random.chance(0.2)) batch.insert(batch.begin(), random.between(1, 2));
  of_left.insert(of_left.begin(), batch.begin(), batch.end());
  const bool has_batch = random.chance(0.4);
  if (has_batch) of_right.insert(of_right.begin(), batch.begin(), batch.end());
  Shape shape = of_left;
  shape.back() = columns;
  const Shape each = !has_batch && random.chance(0.3) ? Shape{columns} : Shape{};
  const GeneratedValue a = drawn_codes(writer, of_a, of_left, 0.1);
  const GeneratedValue b = drawn_codes(writer, of_b, of_right, 0.6, of_a != of_b);
  writer.node(op,
              {a, small_scale(writer), drawn_zero_point(writer, of_a), b, small_scale(writer, each),
               drawn_zero_point(writer, of_b, each), drawn_scale(writer, {}, {4.0F, 32.0F, 128.0F}),
               drawn_zero_point(writer, of_a)},
              {}, {of_a, shape, {kCodes, 1}});
}

/// A convolution of any number of dimensions, with dilations, borders that follow from auto_pad, and groups.
void write_linear_conv(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t dims = random.of<int64_t>({1, 2, 2, 3});
  const int64_t groups = random.of<int64_t>({1, 1, 2, 3});
  const int64_t channels = groups * random.between(1, 2);
  const int64_t outputs = groups * random.between(1, 2);
  const std::string automatic = random.chance(0.3) ? random.of({"SAME_UPPER", "SAME_LOWER", "VALID"}) : "";
  const bool dilates = automatic.empty() && random.chance(0.4);
  Shape shape = {random.between(1, 2), channels};
  Shape of_weight = {outputs, channels / groups};
  Shape result = {shape[0], outputs};
  Shape kernel;
  Shape stride;
  Shape dilation;
  Shape pads(static_cast<size_t>(2 * dims), 0);
  for (size_t i = 0; i < static_cast<size_t>(dims); ++i) {
    kernel.push_back(random.between(1, 3));
    stride.push_back(random.between(1, kernel[i]));
    dilation.push_back(dilates ? random.between(1, 2) : 1);
    const int64_t span = (kernel[i] - 1) * dilation[i] + 1;
    shape.push_back(span + random.between(0, 3));
    if (automatic.empty() && random.chance(0.5)) {
      pads[i] = random.between(0, 1);
      pads[i + kernel.size()] = random.between(0, 1);
    }
    const int64_t size = shape.back();
    result.push_back(automatic.starts_with("SAME")
                         ? (size + stride[i] - 1) / stride[i]
                         : (size + pads[i] + pads[i + kernel.size()] - span) / stride[i] + 1);
  }
  of_weight.insert(of_weight.end(), kernel.begin(), kernel.end());
  const DType of_x = drawn_dtype(random);
  const DType of_w = of_x == DType::kInt8 ? DType::kInt8 : drawn_dtype(random);
  const Shape each = random.chance(0.4) ? Shape{outputs} : Shape{};
  Tensor zero(of_w, each);
  if (of_w == DType::kUInt8) std::ranges::fill(zero.bytes(), std::byte{128});
  std::vector<GeneratedValue> inputs = {drawn_codes(writer, of_x, shape, 0.1),
                                        small_scale(writer),
                                        drawn_zero_point(writer, of_x),
                                        drawn_codes(writer, of_w, of_weight, 0.8, of_x != of_w),
                                        small_scale(writer, each),
                                        writer.constant(zero, {128, 1}),
                                        drawn_scale(writer, {}, {4.0F, 32.0F, 128.0F}),
                                        drawn_zero_point(writer, of_x)};
  if (random.chance(0.5)) {
    Tensor bias(DType::kInt32, {outputs});
    for (int32_t& b : bias.values<int32_t>()) b = static_cast<int32_t>(random.between(-500, 500));
    inputs.push_back(random.chance(0.8) ? writer.constant(bias, {500, 1}) : writer.input_of(bias, {500, 1}));
  }
  std::vector<OnnxAttribute> attributes = {{"strides", stride}, {"group", groups}};
  if (automatic.empty()) attributes.emplace_back("pads", pads);
  if (!automatic.empty()) attributes.emplace_back("auto_pad", automatic.c_str());
  if (dilates) attributes.emplace_back("dilations", dilation);
  if (random.chance(0.5)) attributes.emplace_back("kernel_shape", kernel);
  writer.node(op, inputs, attributes, {of_x, result, {kCodes, 1}});
}

/// A layer whose input is quantized as it comes.
void write_dynamic_layer(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t inner = random.between(1, 6);
  const int64_t columns = random.between(1, 4);
  const GeneratedValue x = writer.operand({.dtypes = {DType::kFloat32},
                                           .shape = Shape{random.between(1, 4), inner},
                                           .must_be_exact = true,
                                           .may_be_empty = false,
                                           .most_magnitude = 64});
  const std::vector<GeneratedValue> dynamic = writer.node("DynamicQuantizeLinear", {x}, {},
                                                          {{DType::kUInt8, x.shape, {kCodes, 1}, false},
                                                           {DType::kFloat32, {}, {4, 0, 1e-6}, false},
                                                           {DType::kUInt8, {}, {kCodes, 1}, false}});
  const DType of_weight = drawn_dtype(random);
  const GeneratedValue weight =
      drawn_codes(writer, of_weight, {inner, columns}, 0.8, of_weight == DType::kInt8);
  Tensor zero(of_weight, {});
  if (of_weight == DType::kUInt8) zero.bytes()[0] = std::byte{128};
  const GeneratedValue of_zero = of_weight == DType::kUInt8 || random.chance(0.5)
                                     ? writer.constant(zero, {128, 1})
                                     : GraphWriter::absent();
  const GeneratedValue scale = small_scale(writer, random.chance(0.3) ? Shape{columns} : Shape{});
  const Shape shape = {x.shape[0], columns};
  if (random.chance(0.3)) {
    writer.node("MatMulIntegerToFloat",
                {dynamic[0], weight, dynamic[1], scale, dynamic[2], of_zero,
                 writer.source(DType::kFloat32, {columns})},
                {}, {DType::kFloat32, shape, {0x1p12, 0, 1e-3}}, kMicrosoft);
    return;
  }
  const GeneratedValue sums = writer.node(op, {dynamic[0], weight, dynamic[2], of_zero}, {},
                                          Result{DType::kInt32, shape, {0x1p19, 1}, false});
  const GeneratedValue floats =
      writer.node("Cast", {sums}, {{"to", 1}}, Result{DType::kFloat32, shape, {0x1p19, 1}, false});
  const GeneratedValue factor =
      writer.node("Mul", {dynamic[1], scale}, {}, Result{DType::kFloat32, scale.shape, {4, 0, 1e-6}, false});
  writer.node("Mul", {floats, factor}, {}, Result{DType::kFloat32, shape, {0x1p12, 0, 1e-3}});
}

}  // namespace

std::vector<OperatorGenerator> quantized_generators() {
  return {{"QLinearAdd", 10, write_codes_pair},
          {"QLinearMul", 10, write_codes_pair},
          {"QLinearSigmoid", 10, write_codes_function},
          {"QLinearLeakyRelu", 10, write_codes_function},
          {"QLinearSoftmax", 10, write_codes_softmax},
          {"QLinearAveragePool", 10, write_codes_pool},
          {"QLinearGlobalAveragePool", 10, write_codes_global_pool},
          {"QLinearConcat", 10, write_codes_concat},
          {"QLinearWhere", 10, write_codes_where},
          {"QGemm", 10, write_codes_gemm},
          {"MatMulIntegerToFloat", 10, write_codes_to_float},
          {"QLinearMatMul", 10, write_linear_matmul},
          {"QLinearConv", 10, write_linear_conv},
          {"QLinearConv", 10, write_linear_conv},
          {"MatMulInteger", 11, write_dynamic_layer}};
}

}  // namespace detent
