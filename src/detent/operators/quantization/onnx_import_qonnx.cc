#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/formats/elements/minifloat.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/formats/verbs.h"
#include "detent/graph/quantizer.h"
#include "detent/operators/onnx_import.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace detent {
namespace {

// Operators of QONNX beside those that round to integers (rounding.cc):
// https://github.com/fastmachinelearning/qonnx/tree/main/docs/qonnx-custom-ops

/// Grid of FloatQuant: exponent and mantissa widths, the exponent's bias, and the largest value.
struct FloatGrid {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  double largest = 0;  // of all codes
  double limit = 0;    // that the node gives
};

int whole_number(const NodeImport& node, size_t input, const char* what, int least, int most) {
  static_cast<void>(node.expect_constant(input, what));
  const std::optional<double> number = node.number(input);
  if (!number || *number != std::floor(*number) || *number < least || *number > most)
    node.refuse(fmt::format("input {}, {}, that is no whole number from {} to {}", input, what, least, most));
  return static_cast<int>(*number);
}

FloatGrid float_grid(const NodeImport& node) {
  constexpr int kMostMantissa = 22;
  constexpr size_t kLimit = 5;
  FloatGrid grid;
  grid.exponent_bits = whole_number(node, 2, "the exponent's width", 1, 8);
  grid.mantissa_bits = whole_number(node, 3, "the mantissa's width", 0, kMostMantissa);
  grid.bias = whole_number(node, 4, "the exponent's bias", -128, 150 - grid.mantissa_bits);
  const int top = (1 << grid.exponent_bits) - 1 - grid.bias;
  grid.largest = std::ldexp(2 - std::ldexp(1, -grid.mantissa_bits), top);
  grid.limit = grid.largest;
  if (!node.has_input(kLimit)) return grid;
  static_cast<void>(node.expect_constant(kLimit, "the largest value"));
  const std::optional<double> limit = node.number(kLimit);
  if (!limit || !(*limit > 0)) node.refuse("a largest value that is no positive number");
  grid.limit = std::min(grid.largest, *limit);
  return grid;
}

/// Whether formats of floats have the values of the grid: those of float32.
bool is_within_float32(const FloatGrid& grid) { return grid.bias >= (1 << grid.exponent_bits) - 128; }

/// The largest power of two that is not above |x|: the nearest one, or half of it.
NodeInput leading_power(NodeImport& node, const NodeInput& x) {
  QuantSpec powers;
  powers.format = MinifloatIeee{.width = 9, .exponent_width = 8, .exponent_bias = 128};
  const NodeInput size = node.add("abs", {x});
  const NodeInput nearest = node.add_rounding(size, powers);
  const NodeInput half = node.add("mul", {nearest, NodeImport::number_of(0.5)});
  return node.add("where", {node.add("gt", {nearest, size}), half, nearest});
}

/// x rounded in any way: x / step as whole numbers, where steps are as many bits below the leading one of x
/// as the mantissa has, and the same below the least exponent. What exceeds the largest value is that, or
/// with `saturation` 0 infinity where the floats have it, else no number.
NodeInput rounded_in_steps(NodeImport& node, const NodeInput& x, const FloatGrid& grid, double least) {
  const NodeInput least_step = NodeImport::number_of(std::ldexp(1, 1 - grid.bias - grid.mantissa_bits));
  const NodeInput share = NodeImport::number_of(std::ldexp(1, -grid.mantissa_bits));
  const NodeInput step = node.add("maximum", {node.add("mul", {leading_power(node, x), share}), least_step});
  const std::string mode = rounding_mode(node, "ROUND");
  const NodeInput rounded = node.add("mul", {rounded_to_whole(node, node.add("div", {x, step}), mode), step});
  const NodeInput low = NodeImport::number_of(least);
  const NodeInput high = NodeImport::number_of(grid.limit);
  if (node.integer("saturation", 1) != 0) return node.add("clamp", {rounded, low, high});
  const bool has_infinity = node.integer("has_inf", 0) != 0;
  if (!has_infinity && node.integer("has_nan", 0) == 0)
    node.refuse("saturation 0 of floats without infinity and NaN");
  const double beyond =
      has_infinity ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  const NodeInput above =
      node.add("where", {node.add("gt", {rounded, high}), NodeImport::number_of(beyond), rounded});
  return node.add("where", {node.add("lt", {rounded, low}), NodeImport::number_of(-beyond), above});
}

/// A standard format where it has just these values; else one that uses all codes, and nothing where the
/// largest value leaves some out.
std::optional<QuantSpec> format_of(const FloatGrid& grid) {
  for (const MinifloatStandard& standard : kMinifloatStandards) {
    if (standard.exponent_bits == grid.exponent_bits && standard.mantissa_bits == grid.mantissa_bits &&
        standard.bias == grid.bias && static_cast<double>(standard.grid().largest) == grid.limit &&
        standard.reserved != ReservedCodes::kNegativeZero)
      return parse_quant_spec_text(standard.name);
  }
  if (grid.limit != grid.largest) return std::nullopt;
  QuantSpec spec;
  spec.format = MinifloatIeee{.width = 1 + grid.exponent_bits + grid.mantissa_bits,
                              .exponent_width = grid.exponent_bits,
                              .exponent_bias = grid.bias};
  return spec;
}

/// The exponent of a scale that is one power of two for all.
std::optional<int> scale_exponent(const NodeImport& node) {
  int exponent = 0;
  const std::optional<double> scale = node.number(1);
  if (!scale || std::frexp(*scale, &exponent) != 0.5) return std::nullopt;
  return exponent - 1;
}

/// The grid of the scaled values, which is another one of the same widths where the scale is a power of two.
std::optional<QuantSpec> format_of_scaled(const NodeImport& node, FloatGrid grid) {
  const std::optional<int> exponent = scale_exponent(node);
  if (!exponent) return std::nullopt;
  grid.bias -= *exponent;
  if (grid.bias < (1 << grid.exponent_bits) - 128 || grid.bias > 150 - grid.mantissa_bits)
    return std::nullopt;
  grid.largest = std::ldexp(grid.largest, *exponent);
  grid.limit = std::ldexp(grid.limit, *exponent);
  return format_of(grid);
}

/// The input rounded to floats of few bits, times a scale.
void convert_float_quant(NodeImport& node) {
  for (const char* const name : {"has_inf", "has_nan", "has_subnormal"})
    static_cast<void>(node.integer(name, 0));  // the package qonnx ignores the last
  const FloatGrid grid = float_grid(node);
  const bool is_signed = node.integer("signed", 1) != 0;
  const bool is_plain = is_within_float32(grid) && rounding_mode(node, "ROUND") == "ROUND" &&
                        node.integer("saturation", 1) != 0;
  if (!is_plain) {
    const NodeInput factor = node.number_or_input(1);
    const NodeInput scaled = node.add("div", {node.input(0), factor});
    const NodeInput rounded = rounded_in_steps(node, scaled, grid, is_signed ? -grid.limit : 0);
    return node.set_output(0, node.add("mul", {rounded, factor}));
  }
  if (const auto spec = is_signed ? format_of_scaled(node, grid) : std::nullopt) {
    const Tensor* const constant = node.constant(0);
    if (constant == nullptr) return node.set_output(0, node.add_rounding(node.input(0), *spec));
    return node.set_output(0, fake_quantize(*spec, *constant), *spec);
  }
  FloatGrid whole = grid;
  whole.limit = whole.largest;
  const NodeInput scale = node.number_or_input(1);
  NodeInput x = node.add("div", {node.input(0), scale});
  x = node.add_rounding(std::move(x), *format_of(whole));
  if (grid.limit != grid.largest || !is_signed) {
    x = node.add("clamp", {std::move(x), NodeImport::number_of(is_signed ? -grid.limit : 0),
                           NodeImport::number_of(grid.limit)});
  }
  node.set_output(0, node.add("mul", {std::move(x), scale}));
}

/// The channels' dimension: where the layout has it; without one the last of three, else the second.
int64_t channel_axis(const NodeImport& node) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  std::string layout = node.text("data_layout", "");
  if (layout.empty()) layout = rank == 3 ? "NWC" : "NC";
  if (rank < 2 || layout.front() != 'N' || layout.find('C') == std::string::npos)
    fail("data_layout is \"{}\" of {} dimensions", layout, rank);
  const size_t place = layout.find('C');
  return static_cast<int64_t>(place) < rank ? static_cast<int64_t>(place) : 1;
}

/// How many of the channel's thresholds an element has reached, times a scale, and a bias.
void convert_multi_threshold(NodeImport& node) {
  const int64_t axis = channel_axis(node);
  const auto rank = static_cast<int64_t>(node.rank(0));
  if (node.rank(1) != 2) fail("thresholds of {} dimensions, expected 2", node.rank(1));
  const int64_t rows = node.type(1).shape[0];
  const auto channels = node.size(0, axis);
  if (rows != 1 && channels && rows != *channels) fail("thresholds of {} channels for {}", rows, *channels);
  std::vector<int64_t> after(static_cast<size_t>(rank - 1 - axis));
  std::iota(after.begin(), after.end(), int64_t{1});
  NodeInput thresholds = node.input(1);
  if (!after.empty()) thresholds = node.add("unsqueeze", {thresholds, NodeImport::list_of(after)});
  const NodeInput column = node.add("unsqueeze", {node.input(0), NodeImport::list_of({-1})});
  const NodeInput reached = node.add("cast", {node.add("ge", {column, thresholds})}, {{"dtype", "float32"}});
  NodeInput result = node.add("sum", {reached, NodeImport::list_of({-1})});
  if (const double scale = node.number("out_scale", 1); scale != 1)
    result = node.add("mul", {result, NodeImport::number_of(scale)});
  if (const double bias = node.number("out_bias", 0); bias != 0)
    result = node.add("add", {result, NodeImport::number_of(bias)});
  node.set_output(0, result);
}

/// 2 x - 1: bits as signs.
Tensor transposed_signs(const Tensor& bits) {
  const int64_t rows = bits.dim(0);
  const int64_t columns = bits.dim(1);
  Tensor signs(DType::kFloat32, {columns, rows});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      signs.values<float>()[static_cast<size_t>(c * rows + r)] =
          2 * bits.values<float>()[static_cast<size_t>(r * columns + c)] - 1;
  }
  return signs;
}

NodeInput signs_of(NodeImport& node, size_t input) {
  const NodeInput twice = node.add("mul", {node.input(input), NodeImport::number_of(2)});
  return node.add("sub", {twice, NodeImport::number_of(1)});
}

/// How many bits of a row and a column are equal: half of the product of their signs and their number.
void convert_xnor_popcount(NodeImport& node) {
  if (node.rank(1) != 2) fail("bits of {} dimensions, expected a matrix", node.rank(1));
  const auto size = node.size(1, 0);
  if (!size) node.refuse("an open number of bits");
  const Tensor* const weight = node.constant(1);
  NodeInput sums;
  if (weight != nullptr && weight->dtype() == DType::kFloat32) {
    const ParameterRef signs = NodeImport::parameter(transposed_signs(*weight));
    sums = node.add("linear", {signs_of(node, 0)}, {}, {{"weight", signs}});
  } else {
    sums = node.add("matmul", {signs_of(node, 0), signs_of(node, 1)});
  }
  const NodeInput twice = node.add("add", {sums, NodeImport::number_of(static_cast<double>(*size))});
  node.set_output(0, node.add("mul", {twice, NodeImport::number_of(0.5)}));
}

/// Integers that a window sums, without their lowest bits: as many as the sums need more than `obits`.
void convert_quantized_average(NodeImport& node) {
  constexpr int64_t kMost = 1 << 15;
  constexpr int64_t kWidest = 32;
  const int64_t kernel = node.integer("kernel", 1);
  const int64_t stride = node.integer("stride", 1);
  const int64_t from = node.integer("ibits", 1);
  const int64_t to = node.integer("obits", 1);
  const bool fits = kernel >= 1 && kernel <= kMost && stride >= 1 && stride <= kMost && from >= 1 &&
                    from <= kWidest && to >= 1 && to <= kWidest;
  if (!fits || node.rank(0) != 4)
    fail("kernel {}, stride {}, {} to {} bits of {} dimensions", kernel, stride, from, to, node.rank(0));
  const double most = (std::ldexp(1, static_cast<int>(from)) - 1) * static_cast<double>(kernel * kernel);
  const int64_t wanted = std::ilogb(most) + 1;
  const double step = std::ldexp(1, static_cast<int>(std::max<int64_t>(wanted - to, 0)));
  const bool is_last = node.text("data_layout", "NCHW") == "NHWC";
  const auto permuted = [&](NodeInput x, const std::vector<int64_t>& dims) {
    return is_last ? node.add("permute", {std::move(x)}, {{"dims", Value(dims)}}) : x;
  };
  const std::vector<int64_t> window = {kernel, kernel};
  const NodeInput means =
      node.add("avg_pool2d", {permuted(node.input(0), {0, 3, 1, 2})},
               {{"kernel_size", Value(window)}, {"stride", Value(std::vector<int64_t>{stride, stride})}});
  NodeInput sums = node.add("mul", {means, NodeImport::number_of(static_cast<double>(kernel * kernel))});
  sums = node.add("round", {sums});
  const NodeInput shifted = node.add("floor", {node.add("mul", {sums, NodeImport::number_of(1 / step)})});
  node.set_output(0, permuted(shifted, {0, 2, 3, 1}));
}

void convert_debug_marker(NodeImport& node) { node.pass_on(0); }

// Operators of the domain "detent", which detent.torch writes.

/// With scales that are learned, as input 1 gives them.
QuantSpec with_scale_input(const NodeImport& node, QuantSpec spec) {
  spec.scale_rule = ScaleRule::kLearned;
  Quantizer quantizer(std::move(spec));
  quantizer.parameters.emplace_back(
      "scale", ParameterRef(Parameter{to_float32(node.expect_constant(1, "the scale")), false}));
  const std::optional<QuantSpec> rounding = quantizer.effective_spec();
  if (!rounding) node.refuse("no format rounds as the learned scale says");
  return *rounding;
}

/// Rounds to the format that the attribute names. A constant keeps the scales that it was rounded with.
void convert_fake_quantize(NodeImport& node) {
  QuantSpec spec = parse_quant_spec_text(node.text("format", ""));
  if (node.has_input(1)) spec = with_scale_input(node, std::move(spec));
  const Tensor* const constant = node.constant(0);
  if (constant == nullptr) return node.set_output(0, node.add_rounding(node.input(0), spec));
  const Tensor values = to_float32(*constant);
  const QuantSpec given = with_given_parameters(spec, values);
  node.set_output(0, fake_quantize(given, values), given);
}

}  // namespace

OnnxConverterList format_converters() { return {{"FakeQuantize", convert_fake_quantize}}; }

OnnxConverterList qonnx_converters() {
  return {{"FloatQuant", convert_float_quant},
          {"MultiThreshold", convert_multi_threshold},
          {"XnorPopcountMatMul", convert_xnor_popcount},
          {"QuantAvgPool2d", convert_quantized_average},
          {"DebugMarker", convert_debug_marker}};
}

}  // namespace detent
