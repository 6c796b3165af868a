#include <algorithm>
#include <cmath>
#include <numeric>

#include "case.h"
#include "detent/core/convert.h"
#include "detent/onnx/tensor_data.h"

// Nodes as exporters write them one after the other, which import takes up as one, or as quantizers.

namespace detent {
namespace {

GeneratedValue number(GraphWriter& writer, float value) {
  const Tensor tensor =
      Tensor::from(writer.random.chance(0.7) ? Shape{} : Shape{1}, std::vector<float>{value});
  return writer.constant(to_dtype(tensor, writer.real), {std::fabs(value), 0, 0, value > 0});
}

/// A weight of which all elements are multiples of 1/2, and the same.
GeneratedValue repeated(GraphWriter& writer, const Shape& shape, float value) {
  const std::vector<float> values(static_cast<size_t>(element_count(shape)), value);
  return writer.constant(to_dtype(Tensor::from(shape, values), writer.real), {std::fabs(value), 0.5});
}

GeneratedValue unary(GraphWriter& writer, const char* op, const GeneratedValue& x, const Numbers& numbers) {
  return writer.node(op, {x}, {}, Result{x.dtype, x.shape, numbers});
}

/// The operands in either order.
GeneratedValue pair(GraphWriter& writer, const char* op, const GeneratedValue& a, const GeneratedValue& b,
                    const Numbers& numbers) {
  const Result result{a.dtype, broadcast_shape(a.shape, b.shape), numbers};
  const bool turns = (std::string(op) == "Add" || std::string(op) == "Mul") && writer.random.chance(0.5);
  return turns ? writer.node(op, {b, a}, {}, result) : writer.node(op, {a, b}, {}, result);
}

/// A layer, and a constant that is added to it: a bias, or nearly one.
void write_layer_and_addend(GraphWriter& writer, const std::string&) {
  Random& random = writer.random;
  const bool is_convolution = writer.real != DType::kFloat64 && random.chance(0.5);
  const int64_t channels = random.between(1, 3);
  GeneratedValue layer;
  if (is_convolution) {
    const GeneratedValue x = writer.operand({.dtypes = {writer.real},
                                             .shape = Shape{random.between(1, 2), 2, 3, random.between(1, 3)},
                                             .most_magnitude = 64});
    const GeneratedValue weight = repeated(writer, {channels, 2, 1, 1}, 0.5F);
    layer = writer.node(
        "Conv", {x, weight}, {},
        Result{
            x.dtype, {x.shape[0], channels, 3, x.shape[3]}, sum_of(product(x.numbers, weight.numbers), 2)});
  } else {
    const GeneratedValue x =
        writer.operand({.dtypes = {writer.real}, .least_rank = 1, .most_rank = 3, .most_magnitude = 64});
    const int64_t inner = x.shape.back();
    const GeneratedValue weight = repeated(writer, {inner, channels}, -1.5F);
    Shape shape = x.shape;
    shape.back() = channels;
    layer = writer.node(
        "MatMul", {x, weight}, {},
        Result{x.dtype, shape, sum_of(product(x.numbers, weight.numbers), static_cast<double>(inner))});
  }
  const auto& s = layer.shape;
  std::vector<Shape> shapes = {{channels}, {1}, {}, Shape(s.size(), 1), s};
  if (is_convolution) shapes = {{channels, 1, 1}, {1, channels, 1, 1}, {1}, {}, {s[3]}, {channels, 3, 1}, s};
  const GeneratedValue addend = writer.constant(
      [&] {
        Tensor tensor(DType::kFloat32, random.of(shapes));
        for (float& value : tensor.values<float>()) value = static_cast<float>(random.between(-8, 8)) / 4;
        return to_dtype(tensor, writer.real);
      }(),
      {2, 0.25});
  const GeneratedValue total = pair(writer, "Add", layer, addend, sum(layer.numbers, addend.numbers));
  if (random.chance(0.4)) unary(writer, "Relu", total, total.numbers);
  if (random.chance(0.15))
    unary(writer, "Neg", layer, layer.numbers);  // the sum is not all that reads the layer
}

/// x / 2 (1 + erf(x / sqrt(2))), in one of the orders that exporters have.
void write_gelu(GraphWriter& writer, const std::string&) {
  const GeneratedValue x =
      writer.operand({.dtypes = {writer.real}, .may_be_empty = false, .most_magnitude = 16});
  const double most = x.numbers.magnitude;
  const Numbers any = function_of(x.numbers, 2, 2 * most + 2);
  const GeneratedValue scaled = writer.random.chance(0.5)
                                    ? pair(writer, "Div", x, number(writer, std::sqrt(2.0F)), any)
                                    : pair(writer, "Mul", x, number(writer, std::sqrt(0.5F)), any);
  const GeneratedValue erf = unary(writer, "Erf", scaled, any);
  const GeneratedValue raised = pair(writer, "Add", erf, number(writer, 1), any);
  const float half = writer.random.chance(0.85) ? 0.5F : 0.25F;
  if (writer.random.chance(0.5)) {
    pair(writer, "Mul", pair(writer, "Mul", x, raised, any), number(writer, half), any);
  } else {
    pair(writer, "Mul", pair(writer, "Mul", x, number(writer, half), any), raised, any);
  }
}

/// Layer normalization by its means.
void write_layer_norm_pattern(GraphWriter& writer, const std::string&) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand({.dtypes = {writer.real},
                                           .least_rank = 2,
                                           .most_rank = 3,
                                           .must_be_exact = true,
                                           .may_be_empty = false,
                                           .most_magnitude = 16});
  const Numbers any = function_of(x.numbers, 64, 1024);
  const bool is_last = random.chance(0.8);
  const auto mean = [&](const GeneratedValue& of) {
    const int64_t axis = is_last ? -1 : 0;
    Shape shape = of.shape;
    shape[is_last ? shape.size() - 1 : 0] = 1;
    const Result result{of.dtype, shape, any};
    if (!writer.is_at_least(18))
      return writer.node(
          "ReduceMean", {of},
          {{"axes", std::vector<int64_t>{writer.is_at_least(11) ? axis : normal_axis(axis, of.rank())}}},
          result);
    return writer.node("ReduceMean",
                       {of, writer.constant(Tensor::from({1}, std::vector<int64_t>{axis}), {1, 1})}, {},
                       result);
  };
  const GeneratedValue centred = pair(writer, "Sub", x, mean(x), any);
  const GeneratedValue squares = random.chance(0.7) ? pair(writer, "Pow", centred, number(writer, 2), any)
                                                    : pair(writer, "Mul", centred, centred, any);
  const GeneratedValue shifted =
      pair(writer, "Add", mean(squares), number(writer, random.of({1e-5F, 0.5F})), any);
  GeneratedValue result = pair(writer, "Div", centred, unary(writer, "Sqrt", shifted, any), any);
  const int64_t size = x.shape.back();
  const auto vector = [&] {
    std::vector<float> values(static_cast<size_t>(size));
    for (float& value : values) value = static_cast<float>(random.between(-4, 4)) / 2;
    const Tensor tensor = Tensor::from(random.chance(0.8) ? Shape{size} : Shape{1, size}, values);
    return writer.constant(to_dtype(tensor, writer.real), {2, 0.5});
  };
  if (random.chance(0.9)) result = pair(writer, "Mul", result, vector(), any);
  if (random.chance(0.8)) pair(writer, "Add", result, vector(), any);
}

/// Sizes taken from a shape, and a Reshape or Expand by them.
void write_computed_sizes(GraphWriter& writer, const std::string&) {
  if (!writer.is_at_least(13)) return;
  Random& random = writer.random;
  const GeneratedValue x = writer.operand(
      {.dtypes = {writer.real, DType::kInt64}, .least_rank = 2, .may_be_wild = true, .may_be_empty = false});
  const GeneratedValue sizes = writer.node("Shape", {x}, {}, Result{DType::kInt64, {x.rank()}, {8, 1}});
  const int64_t kept = random.between(0, x.rank() - 1);
  const GeneratedValue size =
      writer.node("Gather", {sizes, writer.scalar(kept)}, {{"axis", 0}}, Result{DType::kInt64, {}, {8, 1}});
  const auto of = [&](int64_t d) { return x.shape[static_cast<size_t>(d)]; };
  const GeneratedValue row =
      writer.node("Unsqueeze", {size, writer.constant(Tensor::from({1}, std::vector<int64_t>{0}), {0, 1})},
                  {}, Result{DType::kInt64, {1}, {8, 1}});
  const GeneratedValue rest = writer.constant(Tensor::from({1}, std::vector<int64_t>{-1}), {1, 1});
  if (random.chance(0.6)) {
    const GeneratedValue list =
        writer.node("Concat", {row, rest}, {{"axis", 0}}, Result{DType::kInt64, {2}, {8, 1}});
    const int64_t count = std::accumulate(x.shape.begin(), x.shape.end(), int64_t{1}, std::multiplies<>());
    writer.node("Reshape", {x, list}, {}, Result{x.dtype, {of(kept), count / of(kept)}, x.numbers});
    return;
  }
  const GeneratedValue half =
      writer.node("Div", {row, writer.scalar(2)}, {}, Result{DType::kInt64, {1}, {8, 1}});
  const GeneratedValue zero = writer.constant(Tensor::from({1}, std::vector<int64_t>{0}), {0, 1});
  Shape shape = x.shape;
  shape[static_cast<size_t>(kept)] = of(kept) / 2;
  const GeneratedValue axis = writer.constant(Tensor::from({1}, std::vector<int64_t>{kept}), {8, 1});
  writer.node("Slice", {x, zero, half, axis}, {}, Result{x.dtype, shape, x.numbers});
}

GeneratedValue one_scale(GraphWriter& writer, float scale) {
  return writer.constant(Tensor::from({}, std::vector<float>{scale}), {scale, scale, 0, true});
}

/// A layer between quantizers, whose scales are powers of two, so that all sums are exact.
void write_quantized_layer(GraphWriter& writer, const std::string&) {
  if (!writer.is_at_least(13)) return;
  Random& random = writer.random;
  const GeneratedValue x = writer.operand(
      {.dtypes = {DType::kFloat32}, .shape = Shape{random.between(1, 2), 2, 3, 3}, .must_be_exact = true});
  const GeneratedValue zero = writer.constant(
      Tensor::from({}, std::vector<uint8_t>{static_cast<uint8_t>(random.of<int>({0, 128, 7}))}), {128, 1});
  const auto rounded_by = [&](const GeneratedValue& of, float by) {
    const GeneratedValue scale = one_scale(writer, by);
    const GeneratedValue codes =
        writer.node("QuantizeLinear", {of, scale, zero}, {}, Result{DType::kUInt8, of.shape, {255, 1}});
    return writer.node(
        "DequantizeLinear", {codes, scale, zero}, {},
        Result{DType::kFloat32, of.shape, {256.0 * static_cast<double>(by), static_cast<double>(by)}});
  };
  const GeneratedValue input = rounded_by(x, 0.125F);
  const int64_t outputs = random.between(1, 3);
  const Shape of_weight = {outputs, 2, random.between(1, 2), 1};
  const int64_t count = of_weight[0] * of_weight[1] * of_weight[2];
  const bool is_each = random.chance(0.5);
  const GeneratedValue weight_scale =
      is_each
          ? writer.constant(Tensor::from({outputs}, std::vector<float>(static_cast<size_t>(outputs), 0.25F)),
                            {0.25, 0.25, 0, true})
          : one_scale(writer, 0.25F);
  const std::vector<OnnxAttribute> axis =
      is_each ? std::vector<OnnxAttribute>{{"axis", 0}} : std::vector<OnnxAttribute>{};
  GeneratedValue weight;
  if (random.chance(0.5)) {
    std::vector<int8_t> codes(static_cast<size_t>(count));
    for (int8_t& code : codes) code = static_cast<int8_t>(random.between(-20, 20));
    weight = writer.constant(Tensor::from(of_weight, codes), {20, 1});
  } else {  // as training leaves it: in float, with a quantizer
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(random.between(-40, 40)) / 8;
    weight = writer.constant(Tensor::from(of_weight, values), {5, 0.125});
    const GeneratedValue none =
        writer.constant(Tensor(DType::kInt8, is_each ? Shape{outputs} : Shape{}), {0, 1});
    weight = writer.node("QuantizeLinear", {weight, weight_scale, none}, axis,
                         Result{DType::kInt8, of_weight, {20, 1}});
    weight = writer.node("DequantizeLinear", {weight, weight_scale, none}, axis,
                         Result{DType::kFloat32, of_weight, {5, 0.25}});
  }
  if (weight.dtype == DType::kInt8)
    weight = writer.node("DequantizeLinear", {weight, weight_scale}, axis,
                         Result{DType::kFloat32, of_weight, {5, 0.25}});
  GeneratedValue bias = GraphWriter::absent();
  if (random.chance(0.5)) {
    std::vector<int32_t> values(static_cast<size_t>(outputs));
    for (int32_t& value : values) value = static_cast<int32_t>(random.between(-100, 100));
    bias = writer.constant(Tensor::from({outputs}, values), {100, 1});
    bias = writer.node("DequantizeLinear", {bias, one_scale(writer, 0.03125F)}, {},
                       Result{DType::kFloat32, {outputs}, {4, 0.03125}});
  }
  const Shape shape = {x.shape[0], outputs, 4 - of_weight[2], 3};
  GeneratedValue y =
      writer.node("Conv", {input, weight, bias}, {}, Result{DType::kFloat32, shape, {2048, 0.03125}});
  if (random.chance(0.4)) y = unary(writer, "Relu", y, y.numbers);
  if (random.chance(0.8)) rounded_by(y, random.of({1.0F, 0.5F, 2.0F}));
}

}  // namespace

std::vector<OperatorGenerator> pattern_generators() {
  return {{"Add", 7, write_layer_and_addend},   {"Erf", 9, write_gelu},
          {"Div", 8, write_layer_norm_pattern}, {"Reshape", 13, write_computed_sizes},
          {"Conv", 13, write_quantized_layer},  {"Conv", 13, write_quantized_layer}};
}

}  // namespace detent
