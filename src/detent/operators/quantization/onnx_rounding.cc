#include "detent/operators/quantization/onnx_rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/core/error.h"
#include "detent/formats/elements/binary.h"
#include "detent/formats/elements/fixed.h"
#include "detent/formats/verbs.h"
#include "detent/onnx/node_import.h"
#include "detent/operators/onnx_import.h"

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
  const auto is_step = [](double s) { return s > 0 && std::isfinite(s); };
  const auto is_code = [&](double z) { return std::floor(z) == z && z >= codes.low && z <= codes.high; };
  const bool fits = width && !codes.scale.empty() && std::ranges::all_of(codes.scale, is_step) &&
                    std::ranges::all_of(codes.zero_point, is_code) &&
                    (codes.zero_point.size() == 1 || codes.zero_point.size() == codes.scale.size());
  if (!fits) return std::nullopt;
  GivenScales given{.scales = {codes.scale.begin(), codes.scale.end()}};
  if (std::ranges::any_of(codes.zero_point, [](double z) { return z != 0; }) || codes.low > 0) {
    given.zero_points.assign(codes.zero_point.begin(), codes.zero_point.end());
    given.zero_points.resize(given.scales.size(), given.zero_points.front());
  }
  QuantSpec spec;
  if (given.scales.size() > 1) {
    spec.granularity = Granularity::kChannel;
    spec.axis = axis;
  }
  spec.format = integer_format(
      {.width = width->bits, .is_signed = width->is_signed, .is_narrow = width->is_narrow}, std::move(given));
  return spec;
}

std::vector<double> numbers_of(const Tensor& tensor) {
  const Tensor numbers = to_dtype(tensor, DType::kFloat64);
  return {numbers.values<double>().begin(), numbers.values<double>().end()};
}

/// The range of the input's type of few bits, where it has one.
std::pair<double, double> range_of_input(const NodeImport& node, size_t input) {
  const NarrowType* const narrow = node.narrow_type(input);
  return narrow != nullptr ? std::pair(narrow->low(), narrow->high())
                           : range_of_codes(node.type(input).dtype);
}

/// Nothing where a parameter is computed.
std::optional<Codes> known_codes(const NodeImport& node, size_t scale_input, size_t zero_input,
                                 std::pair<double, double> range) {
  const Tensor* scale = node.constant(scale_input);
  const Tensor* zero = node.constant(zero_input);
  if (scale == nullptr || (node.has_input(zero_input) && zero == nullptr)) return std::nullopt;
  const std::vector<double> scales = numbers_of(*scale);
  if (!std::ranges::all_of(scales, [](double step) { return std::isfinite(step); }))
    fail(
        "the scale \"{}\" is infinite or NaN, so its codes stand for no numbers, as where the quantizer saw "
        "a mask of -inf: quantize the float model with a mask of large negative numbers, or with Detent",
        node.input_name(scale_input));
  Codes codes{.scale = scales, .zero_point = zero == nullptr ? std::vector<double>{0} : numbers_of(*zero)};
  std::tie(codes.low, codes.high) = range;
  return codes;
}

std::optional<Codes> known_codes(const NodeImport& node, const QuantizedInput& codes) {
  return known_codes(node, codes.scale, codes.zero_point, range_of_input(node, codes.value));
}

/// Which scale each element has: one for all, one for each position of a dimension, or one for each `block`
/// positions of it at each place of the others.
class ScalePlaces {
 public:
  ScalePlaces(const Shape& shape, const Codes& parameters, int64_t axis, int64_t block = 0) {
    const size_t scales = parameters.scale.size();
    if (scales == 0 || (parameters.zero_point.size() != 1 && parameters.zero_point.size() != scales))
      fail("{} scales and {} zero points", scales, parameters.zero_point.size());
    if (scales == 1) return;
    if (axis < 0 || axis >= std::ssize(shape)) fail("axis {} of {} dimensions", axis, shape.size());
    const auto at = shape.begin() + axis;
    count_ = *at;
    stride_ = element_count({at + 1, shape.end()});
    if (block > 0) {
      block_ = block;
      blocks_ = (count_ + block - 1) / block;
    }
    const int64_t expected = block > 0 ? element_count({shape.begin(), at}) * blocks_ * stride_ : count_;
    if (expected != static_cast<int64_t>(scales))
      fail("{} scales for dimension {} of {}, expected {}", scales, axis, shape_text(shape), expected);
  }

  size_t of(size_t element) const {
    const auto i = static_cast<int64_t>(element);
    const int64_t at = i / stride_ % count_;
    if (block_ == 0) return static_cast<size_t>(at);
    return static_cast<size_t>((i / (stride_ * count_) * blocks_ + at / block_) * stride_ + i % stride_);
  }

  Tensor of_all(const Shape& shape) const {
    Tensor places(DType::kInt32, shape);
    for (size_t i = 0; int32_t & place : places.values<int32_t>()) place = static_cast<int32_t>(of(i++));
    return places;
  }

 private:
  int64_t count_ = 1;
  int64_t stride_ = 1;
  int64_t block_ = 0;
  int64_t blocks_ = 1;
};

double zero_point_at(const Codes& parameters, size_t place) {
  return parameters.zero_point[parameters.zero_point.size() == 1 ? 0 : place];
}

/// (codes - zero point) scale, in float32.
Tensor values_of(const Tensor& codes, const Codes& parameters, const ScalePlaces& places) {
  const bool is_signs = codes.dtype() == DType::kFloat32;  // of BipolarQuant
  if (!is_signs && is_floating_point(codes.dtype()))
    fail("codes of {}, expected int8, uint8, int16 or int32", dtype_name(codes.dtype()));
  Tensor values(DType::kFloat32, codes.shape());
  visit_numbers(codes.dtype(), [&]<class T>(T) {
    const auto from = codes.values<T>();
    for (size_t i = 0; float& value : values.values<float>()) {
      const size_t at = places.of(i);
      const double steps = static_cast<double>(from[i]) - zero_point_at(parameters, at);
      value = static_cast<float>(steps) * static_cast<float>(parameters.scale[at]);
      ++i;
    }
  });
  return values;
}

/// round(value / scale) + zero point within the range, of NaN its 0, as the operator gives them.
Tensor codes_of(const Tensor& values, const Codes& parameters, const ScalePlaces& places, DType dtype) {
  const Tensor from = to_float32(values);
  Tensor codes(dtype, values.shape());
  visit_numbers(dtype, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, bool>) {
      const auto low = static_cast<float>(parameters.low);
      const auto high = std::min(static_cast<float>(parameters.high), largest_float_within<T>());
      for (size_t i = 0; T & code : codes.values<T>()) {
        const size_t at = places.of(i);
        const auto scale = static_cast<float>(parameters.scale[at]);
        const auto zero = static_cast<float>(zero_point_at(parameters, at));
        const float steps = std::nearbyint(from.values<float>()[i] / scale) + zero;
        code = static_cast<T>(std::isnan(steps) ? 0 : std::clamp(steps, low, high));
        ++i;
      }
    }
  });
  return codes;
}

/// Goes from codes back to the operator that makes them, and narrows their range on the way.
const Node* quantizing_node(const NodeImport& node, size_t input, Codes& codes) {
  const Node* at = node.producer(input);
  while (at != nullptr && (at->op == "minimum" || at->op == "maximum")) {
    const auto bound = known_numbers(node, at->inputs[1]);
    if (!bound || bound->size() != 1 || at->inputs[0].is_constant()) return nullptr;
    if (at->op == "minimum") codes.high = std::min(codes.high, bound->front());
    if (at->op == "maximum") codes.low = std::max(codes.low, bound->front());
    at = &node.node(at->inputs[0]);
  }
  return at != nullptr && at->op == "quantize_linear" ? at : nullptr;
}

/// Operand that is rounded to codes of one scale: that of a clamp to the values of two codes, if one comes
/// first, and then these codes are all.
NodeInput rounded_operand(const NodeImport& node, const Node& quantize, Codes& codes) {
  const NodeInput& value = quantize.inputs[0];
  if (value.is_constant() || codes.scale.size() != 1 || node.node(value).op != "clamp") return value;
  const Node& clamp = node.node(value);
  const auto scale = static_cast<float>(codes.scale[0]);
  const auto code_of = [&](size_t bound) -> std::optional<double> {
    const auto number = known_numbers(node, clamp.inputs[bound]);
    if (!number || number->size() != 1) return std::nullopt;
    const auto exact = static_cast<float>((*number)[0]);
    const float steps = std::nearbyint(exact / scale);
    return steps * scale == exact ? std::optional(double{steps} + codes.zero_point[0]) : std::nullopt;
  };
  const std::optional<double> low = code_of(1);
  const std::optional<double> high = code_of(2);
  if (!low || !high || *low < codes.low || *high > codes.high || !width_of(*low, *high)) return value;
  std::tie(codes.low, codes.high) = std::pair(*low, *high);
  return clamp.inputs[0];
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

/// Codes by the attributes and the width, input `bits`, of a node of QONNX.
struct CodeRange {
  int width;
  bool is_signed;
  bool is_narrow;

  double low() const { return is_signed ? -std::ldexp(1, width - 1) + (is_narrow ? 1 : 0) : 0; }
  double high() const {
    return std::ldexp(1, is_signed ? width - 1 : width) - (!is_signed && is_narrow ? 2 : 1);
  }
};

CodeRange code_range(const NodeImport& node, size_t bits_input, bool narrow) {
  constexpr double kWidest = 64;
  const std::vector<double> bits = numbers_of(node.expect_constant(bits_input, "the width"));
  if (bits.size() != 1) node.refuse("several widths");
  if (!(bits[0] >= 1 && bits[0] <= kWidest) || bits[0] != std::floor(bits[0]))
    node.refuse(fmt::format("{} bits", bits[0]));
  return {static_cast<int>(bits[0]), node.integer("signed", 1) != 0,
          node.integer("narrow", narrow ? 1 : 0) != 0};
}

/// Quant takes any width, and rounds down where the scale is a power of two. Nothing where no format does so.
std::optional<QuantSpec> spec_of_quant(const NodeImport& node, const CodeRange& range,
                                       const std::string& mode) {
  const Tensor* scale = node.constant(1);
  const Tensor* zero = node.constant(2);
  if (scale == nullptr || zero == nullptr) return std::nullopt;
  const auto axis =
      broadcast_axis(scale->numel() >= zero->numel() ? scale->shape() : zero->shape(), node.rank(0));
  if (!axis) return std::nullopt;
  Codes codes{numbers_of(*scale), numbers_of(*zero), range.low(), range.high()};
  if (!range.is_signed && range.is_narrow) {  // formats leave out the lowest code, QONNX the highest one
    for (double* code : {&codes.low, &codes.high}) ++*code;
    for (double& code : codes.zero_point) ++code;
  }
  if (mode == "ROUND") {
    if (const auto spec = spec_of(codes, *axis)) return spec;
  }
  constexpr int kWidest = 32;
  const bool is_fixed = codes.scale.size() == 1 && is_power_of_two(codes.scale[0]) && !range.is_narrow &&
                        codes.zero_point == std::vector<double>{0} && range.width <= kWidest;
  if (!is_fixed || (mode != "ROUND" && mode != "FLOOR")) return std::nullopt;
  QuantSpec spec;
  spec.format = Fixed{.width = range.width,
                      .frac_width = -std::ilogb(codes.scale[0]),
                      .is_signed = range.is_signed,
                      .rounding = mode == "FLOOR" ? Rounding::kFloor : Rounding::kNearest};
  return spec;
}

/// An input that is a float number where it is constant and one for all.
NodeInput float_or_input(NodeImport& node, size_t index) {
  const auto number = node.number(index);
  return number ? NodeImport::number_of(*number) : node.input(index);
}

/// x / scale + zero point
NodeInput in_steps(NodeImport& node) {
  return node.add("add",
                  {node.add("div", {node.input(0), float_or_input(node, 1)}), float_or_input(node, 2)});
}

NodeInput clamped(NodeImport& node, const NodeInput& x, const CodeRange& range) {
  return node.add("clamp", {x, NodeImport::number_of(range.low()), NodeImport::number_of(range.high())});
}

/// The input rounded: a constant at once.
void set_rounded(NodeImport& node, const QuantSpec& spec) {
  const Tensor* constant = node.constant(0);
  if (constant == nullptr) return node.set_output(0, node.add_rounding(node.input(0), spec));
  node.set_output(0, fake_quantize(spec, *constant), spec);
}

/// The scale of a constant is in its values; that of others comes after the sign.
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
  const ScalePlaces places(constant->shape(), factors, *axis);
  const Tensor values = values_of(fake_quantize(spec, *constant), factors, places);
  const bool several = factors.scale.size() > 1;
  spec.format = Binary{.scaling = several ? BinaryScaling::kPerChannel : BinaryScaling::kPerTensor};
  spec.axis = several ? *axis : 0;
  node.set_output(0, values, spec);
}

/// A quantizer where a format rounds so; else the operators that it stands for.
void convert_quant(NodeImport& node) {
  const CodeRange range = code_range(node, 3, false);
  const std::string mode = rounding_mode(node, "ROUND");
  if (range.width == 1 && range.is_signed) {
    if (node.number(size_t{2}) == 0.0) return convert_bipolar_quant(node);
    const NodeInput is_above = node.add("ge", {in_steps(node), NodeImport::number_of(0)});
    const NodeInput truth = node.add("cast", {is_above}, {{"dtype", "float32"}});
    const NodeInput twice = node.add("mul", {truth, NodeImport::number_of(2)});
    const NodeInput sign = node.add("sub", {twice, NodeImport::number_of(1)});
    const NodeInput code = node.add("sub", {sign, float_or_input(node, 2)});
    return node.set_output(0, node.add("mul", {code, float_or_input(node, 1)}));
  }
  if (const auto spec = spec_of_quant(node, range, mode)) return set_rounded(node, *spec);
  NodeInput codes = rounded_to_whole(node, clamped(node, in_steps(node), range), mode);
  codes = node.add("sub", {codes, float_or_input(node, 2)});
  node.set_output(0, node.add("mul", {codes, float_or_input(node, 1)}));
}

/// By what the steps of the result are larger, a power of two: in version 1 from widths, then from scales.
double truncated_steps(const NodeImport& node, size_t out_bits) {
  if (!node.has_input(5)) {
    const std::vector<double> from = numbers_of(node.expect_constant(3, "the width"));
    const std::vector<double> to = numbers_of(node.expect_constant(out_bits, "the width of the result"));
    if (from.size() != 1 || to.size() != 1) node.refuse("several widths");
    return std::exp2(from[0] - to[0]);
  }
  const std::vector<double> from = numbers_of(node.expect_constant(1, "the scale"));
  const std::vector<double> to = numbers_of(node.expect_constant(4, "the scale of the result"));
  if (from.size() != 1 || to.size() != 1) node.refuse("several scales");
  return std::exp2(std::nearbyint(std::log2(to[0] / from[0])));
}

/// A zero point in units of so many steps.
NodeInput scaled_zero(NodeImport& node, const NodeInput& zero, double steps) {
  double scratch = 0;
  const double* number = zero.is_constant() ? zero.constant.number(scratch) : nullptr;
  if (number != nullptr) return NodeImport::number_of(*number / steps);
  return node.add("div", {zero, NodeImport::number_of(steps)});
}

/// Integers with their lowest bits cut off. Version 1 keeps the scale of the input; version 2 gives one of
/// the result (input 4), and clamps to the result's width.
void convert_trunc(NodeImport& node) {
  const size_t out_bits = node.input_count() - 1;
  if (out_bits < 4) fail("{} inputs, expected 5 to 7", node.input_count());
  const bool has_scale = out_bits > 4;
  const double steps = truncated_steps(node, out_bits);
  NodeInput codes = node.add("round", {in_steps(node)});
  codes = node.add("div", {codes, NodeImport::number_of(steps)});
  if (has_scale) codes = clamped(node, codes, code_range(node, out_bits, false));
  codes = rounded_to_whole(node, codes, rounding_mode(node, "FLOOR"));
  NodeInput zero = float_or_input(node, 2);
  if (has_scale) zero = scaled_zero(node, zero, steps);
  codes = node.add("sub", {codes, zero});
  node.set_output(0, node.add("mul", {codes, float_or_input(node, has_scale ? 4 : 1)}));
}

}  // namespace

std::string rounding_mode(const NodeImport& node, const char* otherwise) {
  std::string mode = node.text("rounding_mode", otherwise);
  for (char& c : mode) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return mode == "HALF_EVEN" ? "ROUND" : mode;
}

NodeInput rounded_to_whole(NodeImport& node, const NodeInput& x, const std::string& mode) {
  constexpr std::pair<std::string_view, const char*> kPlain[] = {
      {"ROUND", "round"}, {"FLOOR", "floor"}, {"CEIL", "ceil"}};
  for (const auto& [name, op] : kPlain) {
    if (mode == name) return node.add(op, {x});
  }
  const NodeInput size = node.add("abs", {x});
  const NodeInput half = NodeImport::number_of(0.5);
  NodeInput rounded;
  if (mode == "DOWN" || mode == "ROUND_TO_ZERO") {
    rounded = node.add("floor", {size});
  } else if (mode == "UP") {
    rounded = node.add("ceil", {size});
  } else if (mode == "HALF_UP") {
    rounded = node.add("floor", {node.add("add", {size, half})});
  } else if (mode == "HALF_DOWN") {
    rounded = node.add("ceil", {node.add("sub", {size, half})});
  } else {
    node.refuse("rounding_mode " + mode);
  }
  return node.add("mul", {node.add("sign", {x}), rounded});
}

std::pair<double, double> range_of_codes(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return {INT8_MIN, INT8_MAX};
    case DType::kUInt8:
      return {0, UINT8_MAX};
    case DType::kInt32:
      return {INT32_MIN, INT32_MAX};
    default:
      return {INT16_MIN, INT16_MAX};
  }
}

std::optional<std::vector<double>> known_numbers(const Graph& graph, const NodeInput& operand) {
  double scratch = 0;
  if (const double* number = operand.is_constant() ? operand.constant.number(scratch) : nullptr)
    return std::vector{*number};
  if (operand.is_constant()) return std::nullopt;
  const Parameter* value = graph.node(operand.node).find_parameter("value");
  return value == nullptr ? std::nullopt : std::optional(numbers_of(value->tensor));
}

std::optional<std::vector<double>> known_numbers(const NodeImport& node, const NodeInput& operand) {
  return known_numbers(node.graph(), operand);
}

namespace {

/// Codes of 32 bits are sums, which have no format.
RoundedConstant rounded_codes(const Tensor& codes, const Codes& parameters, int64_t axis, int64_t block) {
  const ScalePlaces places(codes.shape(), parameters, axis, block);
  RoundedConstant result{.values = values_of(codes, parameters, places), .spec = std::nullopt};
  result.spec = spec_of(parameters, axis);
  if (result.spec && block > 0)
    result.spec = rounding_at_places(*result.spec, places.of_all(codes.shape()), block);
  return result;
}

}  // namespace

RoundedConstant rounded_constant(const Tensor& codes, std::vector<double> scale,
                                 std::vector<double> zero_point, int64_t axis, int64_t block) {
  return rounded_constant(codes, std::move(scale), std::move(zero_point),
                          {axis, block, range_of_codes(codes.dtype())});
}

RoundedConstant rounded_constant(const Tensor& codes, std::vector<double> scale,
                                 std::vector<double> zero_point, const CodeBlocks& blocks) {
  Codes parameters{.scale = std::move(scale), .zero_point = std::move(zero_point)};
  std::tie(parameters.low, parameters.high) = blocks.range;
  return rounded_codes(codes, parameters, blocks.axis, blocks.block);
}

std::optional<RoundedConstant> rounded_constant(const NodeImport& node, const QuantizedInput& codes,
                                                int64_t axis, int64_t block) {
  const Tensor* constant = node.constant(codes.value);
  const std::optional<Codes> known = constant == nullptr ? std::nullopt : known_codes(node, codes);
  if (!known) return std::nullopt;
  return rounded_codes(*constant, *known, axis, block);
}

std::optional<RoundedConstant> rounded_constant(const Graph& graph, const Node& node) {
  const std::optional<QuantSpec> rounding = node.rounding("data_out_0");
  if (!rounding || node.inputs.size() != 1 || node.inputs[0].is_constant()) return std::nullopt;
  const Parameter* value = graph.node(node.inputs[0].node).find_parameter("value");
  if (value == nullptr || value->tensor.dtype() != DType::kFloat32) return std::nullopt;
  return RoundedConstant{fake_quantize(*rounding, value->tensor), rounding};
}

std::optional<Tensor> constant_codes(const NodeImport& node, DType dtype, const NarrowType* narrow,
                                     int64_t axis, int64_t block) {
  const Tensor* values = node.constant(0);
  const auto range = narrow != nullptr ? std::pair(narrow->low(), narrow->high()) : range_of_codes(dtype);
  const std::optional<Codes> known = known_codes(node, 1, 2, range);
  if (values == nullptr || !known) return std::nullopt;
  return codes_of(*values, *known, ScalePlaces(values->shape(), *known, axis, block), dtype);
}

std::optional<Tensor> constant_codes(const Graph& graph, const Node& node) {
  if (node.op != "quantize_linear" || node.inputs[0].is_constant()) return std::nullopt;
  const Parameter* value = graph.node(node.inputs[0].node).find_parameter("value");
  const auto scale = known_numbers(graph, node.inputs[1]);
  const bool has_zero = node.inputs.size() > 2 && !node.inputs[2].is_absent();
  const auto zero = has_zero ? known_numbers(graph, node.inputs[2]) : std::vector<double>{0};
  if (value == nullptr || !scale || !zero) return std::nullopt;
  const DType dtype = dtype_of_name(choice_attribute(node, "dtype"));
  Codes codes{.scale = *scale, .zero_point = *zero};
  std::tie(codes.low, codes.high) = range_of_codes(dtype);
  const Tensor& values = value->tensor;
  const int64_t axis = integer_attribute(node, "axis");
  const ScalePlaces places(values.shape(), codes, axis < 0 ? axis + values.rank() : axis);
  return codes_of(values, codes, places, dtype);
}

std::optional<NodeInput> rounded_value(NodeImport& node, const QuantizedInput& input, int64_t axis) {
  std::optional<Codes> codes = known_codes(node, input);
  const Node* quantize = codes ? quantizing_node(node, input.value, *codes) : nullptr;
  if (quantize == nullptr) return std::nullopt;
  const auto same = [&](size_t index, const std::vector<double>& expected) {
    if (index >= quantize->inputs.size() || quantize->inputs[index].is_absent())
      return expected == std::vector<double>{0};
    return known_numbers(node, quantize->inputs[index]) == expected;
  };
  if (!same(1, codes->scale) || !same(2, codes->zero_point)) return std::nullopt;
  const NodeInput value = rounded_operand(node, *quantize, *codes);
  const auto spec = spec_of(*codes, axis);
  return spec ? std::optional(node.add_rounding(value, *spec)) : std::nullopt;
}

std::optional<QuantSpec> rounding_to_codes(const NodeImport& node, const QuantizedInput& codes, DType dtype) {
  if (dtype == DType::kInt32) return std::nullopt;
  const std::optional<Codes> known = known_codes(node, codes.scale, codes.zero_point, range_of_codes(dtype));
  return known && known->scale.size() == 1 ? spec_of(*known, 0) : std::nullopt;
}

int64_t axis_of(const NodeImport& node) {
  const int64_t axis = node.integer("axis", 1);
  return axis < 0 ? axis + static_cast<int64_t>(node.rank(0)) : axis;
}

int64_t block_size_of(const NodeImport& node) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const int64_t block = node.integer("block_size", 0);
  if (block < 0 || block > kMost) fail("block_size {}, expected 0 to {}", block, kMost);
  return block;
}

bool became_rounding(NodeImport& node) {
  constexpr QuantizedInput kCodes = {0, 1, 2};
  const int64_t block = block_size_of(node);
  const int64_t axis = axis_of(node);
  if (node.constant(0) != nullptr) {
    const auto rounded = rounded_constant(node, kCodes, axis, block);
    if (!rounded) return false;
    rounded->spec ? node.set_output(0, rounded->values, *rounded->spec) : node.set_output(0, rounded->values);
    return true;
  }
  const auto value = block == 0 ? rounded_value(node, kCodes, axis) : std::nullopt;
  if (value) node.set_output(0, *value);
  return value.has_value();
}

OnnxConverterList rounding_converters() {
  return {{"Quant", convert_quant},
          {"IntQuant", convert_quant},
          {"BipolarQuant", convert_bipolar_quant},
          {"Trunc", convert_trunc}};
}

}  // namespace detent
