#include "detent/onnx/converters/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/formats/affine.h"
#include "detent/formats/binary.h"
#include "detent/formats/fixed.h"
#include "detent/onnx/converters/converters.h"

namespace detent {
namespace {

/// Integers from low to high, of which the zero point is 0.
struct Codes {
  std::vector<double> scale;
  std::vector<double> zero_point;
  double low = 0;
  double high = 0;
};

struct Width {
  int bits;
  bool is_signed;
  bool is_narrow;
};

/// The format that has just these codes.
std::optional<Width> width_of(double low, double high) {
  constexpr int kMost = 24;
  for (int bits = 2; bits <= kMost; ++bits) {
    for (const bool is_signed : {true, false}) {
      const double least = is_signed ? -std::ldexp(1, bits - 1) : 0;
      if (high != std::ldexp(1, is_signed ? bits - 1 : bits) - 1) continue;
      if (low == least || low == least + 1) return Width{bits, is_signed, low != least};
    }
  }
  return std::nullopt;
}

std::optional<QuantSpec> spec_of(const Codes& codes, int64_t axis) {
  const std::optional<Width> width = width_of(codes.low, codes.high);
  const bool fits = width && std::ranges::all_of(codes.scale, [](double s) { return s > 0; }) &&
                    (codes.zero_point.size() == 1 || codes.zero_point.size() == codes.scale.size());
  if (!fits) return std::nullopt;
  Affine affine{.width = width->bits, .is_signed = width->is_signed, .narrow_range = width->is_narrow};
  affine.scale.assign(codes.scale.begin(), codes.scale.end());
  if (std::ranges::any_of(codes.zero_point, [](double z) { return z != 0; }) || codes.low > 0) {
    affine.zero_point.assign(codes.zero_point.begin(), codes.zero_point.end());
    affine.zero_point.resize(affine.scale.size(), affine.zero_point.front());
  }
  QuantSpec spec;
  if (affine.scale.size() > 1) {
    spec.granularity = Granularity::kChannel;
    spec.axis = axis;
  }
  spec.format = std::move(affine);
  return spec;
}

std::vector<double> numbers_of(const Tensor& tensor) {
  const auto list = [](const auto& values) { return std::vector<double>(values.begin(), values.end()); };
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return list(tensor.values<float>());
    case DType::kInt8:
      return list(tensor.values<int8_t>());
    case DType::kUInt8:
      return list(tensor.values<uint8_t>());
    case DType::kInt16:
      return list(tensor.values<int16_t>());
    case DType::kInt32:
      return list(tensor.values<int32_t>());
    case DType::kInt64:
      return list(tensor.values<int64_t>());
    default:
      fail("got {}, expected integers or float32", dtype_name(tensor.dtype()));
  }
}

std::pair<double, double> range_of(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return {INT8_MIN, INT8_MAX};
    case DType::kUInt8:
      return {0, UINT8_MAX};
    default:
      return {INT16_MIN, INT16_MAX};
  }
}

/// (codes - zero point) scale, in float32.
Tensor values_of(const Tensor& codes, const Codes& parameters, int64_t axis) {
  const std::vector<double> numbers = numbers_of(codes);
  Tensor values(DType::kFloat32, codes.shape());
  int64_t stride = 1;
  int64_t count = 1;
  if (parameters.scale.size() > 1) {
    if (axis >= codes.rank() || codes.dim(axis) != std::ssize(parameters.scale))
      fail("{} scales for dimension {} of {}", parameters.scale.size(), axis, shape_text(codes.shape()));
    count = codes.dim(axis);
    stride = element_count({codes.shape().begin() + axis + 1, codes.shape().end()});
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto at = static_cast<size_t>(static_cast<int64_t>(i) / stride % count);
    const double zero = parameters.zero_point[parameters.zero_point.size() == 1 ? 0 : at];
    values.values<float>()[i] =
        static_cast<float>(numbers[i] - zero) * static_cast<float>(parameters.scale[at]);
  }
  return values;
}

/// Numbers that an operand holds, where they are known.
std::optional<std::vector<double>> known_numbers(const NodeImport& node, const NodeInput& operand) {
  double scratch = 0;
  if (const double* number = operand.is_constant() ? operand.constant.number(scratch) : nullptr)
    return std::vector{*number};
  if (operand.is_constant()) return std::nullopt;
  const Parameter* value = node.node(operand).find_parameter("value");
  return value == nullptr ? std::nullopt : std::optional(numbers_of(value->tensor));
}

/// Goes from codes back to the operator that makes them, and narrows their range on the way.
const Node* quantizing_node(const NodeImport& node, Codes& codes) {
  const Node* at = node.producer(0);
  while (at != nullptr && (at->op == "minimum" || at->op == "maximum")) {
    const auto bound = known_numbers(node, at->inputs[1]);
    if (!bound || bound->size() != 1 || at->inputs[0].is_constant()) return nullptr;
    if (at->op == "minimum") codes.high = std::min(codes.high, bound->front());
    if (at->op == "maximum") codes.low = std::max(codes.low, bound->front());
    at = &node.node(at->inputs[0]);
  }
  return at != nullptr && at->op == "quantize_linear" ? at : nullptr;
}

/// Scales of a tensor that broadcast with one of `rank` dimensions: along which one they lie.
std::optional<int64_t> broadcast_axis(const Shape& shape, size_t rank) {
  std::optional<int64_t> axis;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (axis) return std::nullopt;
    axis = static_cast<int64_t>(d + rank) - std::ssize(shape);
  }
  return axis.value_or(0);
}

bool is_power_of_two(double number) {
  int exponent = 0;
  return std::frexp(number, &exponent) == 0.5;
}

/// Of Quant: any width, and rounding down where the scale is a power of two.
QuantSpec spec_of_quant(const NodeImport& node) {
  const std::string mode = node.text("rounding_mode", "ROUND");
  const Tensor& scale = node.expect_constant(1, "the scale");
  const Tensor& zero = node.expect_constant(2, "the zero point");
  const auto axis =
      broadcast_axis(scale.numel() >= zero.numel() ? scale.shape() : zero.shape(), node.rank(0));
  const std::vector<double> bits = numbers_of(node.expect_constant(3, "the width"));
  if (bits.size() != 1 || bits[0] != std::floor(bits[0]) || !axis)
    node.refuse("several widths, or scales along several dimensions");
  const auto width = static_cast<int>(bits[0]);
  const bool is_signed = node.integer("signed", 1) != 0;
  const bool is_narrow = node.integer("narrow", 0) != 0;
  Codes codes{.scale = numbers_of(scale), .zero_point = numbers_of(zero)};
  codes.low = (is_signed ? -std::ldexp(1, width - 1) : 0) + (is_narrow ? 1 : 0);
  codes.high = std::ldexp(1, is_signed ? width - 1 : width) - 1;
  if (mode == "ROUND") {
    if (const auto spec = spec_of(codes, *axis)) return *spec;
  }
  const bool is_fixed = codes.scale.size() == 1 && is_power_of_two(codes.scale[0]) && !is_narrow &&
                        codes.zero_point == std::vector<double>{0} && width <= 32;
  if (!is_fixed || (mode != "ROUND" && mode != "FLOOR"))
    node.refuse(fmt::format("rounding_mode {}, {} bits", mode, width));
  QuantSpec spec;
  spec.format = Fixed{.width = width,
                      .frac_width = -std::ilogb(codes.scale[0]),
                      .is_signed = is_signed,
                      .rounding = mode == "FLOOR" ? Rounding::kFloor : Rounding::kNearest};
  return spec;
}

/// The input rounded: a constant at once.
void set_rounded(NodeImport& node, const QuantSpec& spec) {
  const Tensor* constant = node.constant(0);
  if (constant == nullptr) return node.set_output(0, node.add_rounding(node.input(0), spec));
  node.set_output(0, simulate(spec, *constant), spec);
}

void convert_quant(NodeImport& node) { set_rounded(node, spec_of_quant(node)); }

/// The scale of a constant is in its values; that of others comes behind the sign.
void convert_bipolar_quant(NodeImport& node) {
  const Tensor& scale = node.expect_constant(1, "the scale");
  QuantSpec spec;
  spec.format = Binary{};
  const Tensor* constant = node.constant(0);
  const bool is_one = numbers_of(scale) == std::vector<double>{1};
  if (is_one) return set_rounded(node, spec);
  const auto axis = broadcast_axis(scale.shape(), node.rank(0));
  if (!axis) node.refuse("scales along several dimensions");
  if (constant == nullptr) {
    const NodeInput signs = node.add_rounding(node.input(0), spec);
    return node.set_output(0, node.add("mul", {signs, node.input(1)}));
  }
  const Codes factors{.scale = numbers_of(scale), .zero_point = {0}};
  const Tensor values = values_of(simulate(spec, *constant), factors, *axis);
  const bool several = factors.scale.size() > 1;
  spec.format = Binary{.scaling = several ? BinaryScaling::kPerChannel : BinaryScaling::kPerTensor};
  spec.axis = several ? *axis : 0;
  node.set_output(0, values, spec);
}

}  // namespace

bool became_rounding(NodeImport& node) {
  const Tensor* scale = node.constant(1);
  const Tensor* zero = node.constant(2);
  if (scale == nullptr || (node.has_input(2) && zero == nullptr) || node.integer("block_size", 0) != 0)
    return false;
  const DType dtype = node.type(0).dtype;
  Codes codes{.scale = numbers_of(*scale),
              .zero_point = zero == nullptr ? std::vector<double>{0} : numbers_of(*zero)};
  std::tie(codes.low, codes.high) = range_of(dtype);
  int64_t axis = node.integer("axis", 1);
  if (axis < 0) axis += static_cast<int64_t>(node.rank(0));
  if (const Tensor* constant = node.constant(0)) {
    const Tensor values = values_of(*constant, codes, axis);
    const auto spec = dtype == DType::kInt32 ? std::nullopt : spec_of(codes, axis);
    spec ? node.set_output(0, values, *spec) : node.set_output(0, values);
    return true;
  }
  const Node* quantize = quantizing_node(node, codes);
  if (quantize == nullptr) return false;
  const auto same = [&](size_t input, const std::vector<double>& expected) {
    if (input >= quantize->inputs.size() || quantize->inputs[input].is_absent())
      return expected == std::vector<double>{0};
    return known_numbers(node, quantize->inputs[input]) == expected;
  };
  if (!same(1, codes.scale) || !same(2, codes.zero_point)) return false;
  const auto spec = spec_of(codes, axis);
  if (!spec) return false;
  node.set_output(0, node.add_rounding(quantize->inputs[0], *spec));
  return true;
}

OnnxConverterList rounding_converters() {
  return {{"Quant", convert_quant}, {"BipolarQuant", convert_bipolar_quant}};
}

}  // namespace detent
