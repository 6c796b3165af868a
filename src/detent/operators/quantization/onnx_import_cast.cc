#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/formats/format.h"
#include "detent/onnx/tensor_data.h"
#include "detent/operators/onnx_import.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace detent {
namespace {

NodeInput to_dtype_of_graph(NodeImport& node, NodeInput x, DType dtype) {
  if (node.type_of(x).dtype == dtype) return x;
  return node.add("cast", {std::move(x)}, {{"dtype", std::string(dtype_name(dtype))}});
}

/// That of the largest values, all of whose codes but the last may be numbers.
int largest_exponent(const NarrowType& type) {
  const int exponent_bits = type.bits - (type.is_signed ? 1 : 0) - type.fraction;
  return (1 << exponent_bits) - 1 - type.bias;
}

/// Casts to an element type of ONNX: all floats are float32 inside of a graph, but a cast rounds to them;
/// integers of few bits wrap as they do.
void cast(NodeImport& node, int64_t element_type) {
  const DType dtype = dtype_of_onnx(element_type);
  const NarrowType* const narrow = find_narrow_type(element_type);
  const auto is_text = [](const NarrowType* type) { return type != nullptr && type->is_text(); };
  if (is_text(narrow) != is_text(node.narrow_type(0))) node.refuse("strings from numbers, or the reverse");
  const bool rounds = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  NodeInput result = node.input(0);
  if (narrow != nullptr && !narrow->is_float())
    result = node.wrapped(to_dtype_of_graph(node, result, DType::kInt64), *narrow);
  if (rounds) result = to_dtype_of_graph(node, result, dtype);
  result = to_dtype_of_graph(node, result, is_floating_point(dtype) ? DType::kFloat32 : dtype);
  if (narrow != nullptr && narrow->is_float()) result = rounded_to(node, result, *narrow);
  node.set_output(0, result);
  node.set_float_type(0, dtype);
  node.set_narrow_type(0, narrow);
}

/// The element type was a name before opset 6.
void convert_cast(NodeImport& node) {
  constexpr int64_t kIsNumber = 6;
  const bool is_name = node.opset() < kIsNumber;
  cast(node, is_name ? onnx_element_type(node.text("to", "")) : node.integer("to", 0));
}

void convert_cast_like(NodeImport& node) {
  const NarrowType* const narrow = node.narrow_type(1);
  cast(node, narrow != nullptr ? narrow->onnx : onnx_element_type(node.float_type(1)));
}

/// Rounded; what would be rounded to more than the largest value is NaN.
NodeInput rounded_within(NodeImport& node, const NodeInput& x, const NarrowType& type) {
  const double step = std::ldexp(1, largest_exponent(type) - type.fraction);
  const double beyond_all = 2 * std::ldexp(1, largest_exponent(type));
  const double largest = beyond_all - (type.nan == NarrowType::Nan::kLast ? 2 : 1) * step;
  // In the middle to the even code, which is the largest value's where the last code is NaN.
  const char* const beyond = type.nan == NarrowType::Nan::kLast ? "gt" : "ge";
  const NodeInput rounded = node.add_rounding(x, parse_quant_spec_text(type.format));
  const NodeInput is_beyond =
      node.add(beyond, {node.add("abs", {x}), NodeImport::number_of(largest + step / 2)});
  const NodeInput nan = NodeImport::number_of(std::numeric_limits<double>::quiet_NaN());
  return node.add("where", {is_beyond, nan, rounded});
}

/// Integers of as many bits, which wrap; a truth is 0 or 1.
void convert_bit_cast(NodeImport& node) {
  const int64_t to = node.integer("to", 0);
  const auto bits_of = [](const NarrowType* narrow, DType dtype) {
    return narrow != nullptr ? narrow->bits : static_cast<int>(8 * dtype_size(dtype));
  };
  const NarrowType* const before = node.narrow_type(0);
  const NarrowType* const after = find_narrow_type(to);
  const DType dtype = dtype_of_onnx(to);
  const bool has_floats = is_floating_point(node.float_type(0)) || is_floating_point(dtype) ||
                          (before != nullptr && before->is_float()) || dtype == DType::kBool;
  if (has_floats) node.refuse("bits of other than integers");
  if (bits_of(before, node.type(0).dtype) != bits_of(after, dtype))
    fail("{} bits as {}", bits_of(before, node.type(0).dtype), onnx_element_type_name(to));
  cast(node, to);
}

}  // namespace

NodeInput rounded_to(NodeImport& node, NodeInput x, const NarrowType& type) {
  if (type.format == nullptr) node.refuse(fmt::format("rounding to {}", type.name));
  const bool saturates = type.nan == NarrowType::Nan::kNone || node.integer("saturate", 1) != 0;
  if (!saturates && type.nan != NarrowType::Nan::kFamily) return rounded_within(node, x, type);
  if (type.nan == NarrowType::Nan::kNone)  // NaN becomes 0
    x = node.add("where", {node.add("isnan", {x}), NodeImport::number_of(0), x});
  QuantSpec spec = parse_quant_spec_text(type.format);
  if (!saturates) spec = parse_quant_spec_text(fmt::format("{}:saturate=false", type.format));
  return node.add_rounding(std::move(x), spec);
}

OnnxConverterList cast_converters() {
  return {{"Cast", convert_cast}, {"CastLike", convert_cast_like}, {"BitCast", convert_bit_cast}};
}

}  // namespace detent
