#include "detent/core/error.h"
#include "detent/onnx/converters/converters.h"

namespace detent {
namespace {

// Operators on the bits of integers, as arithmetic.

/// Bits of an input without a sign. Refuses the node where it is of another type.
int64_t unsigned_bits(const NodeImport& node) {
  const NarrowType* const narrow = node.narrow_type(0);
  if (narrow != nullptr && !narrow->is_float() && !narrow->is_signed) return narrow->bits;
  if (narrow != nullptr || node.type(0).dtype != DType::kUInt8)
    node.refuse(fmt::format("bits of {}", dtype_name(node.type(0).dtype)));
  return 8;
}

/// A number of the input's type.
NodeInput constant_of_type(NodeImport& node, int64_t number) {
  const NodeInput constant = node.constant_of(Tensor::from<int64_t>({}, std::vector{number}));
  const DType dtype = node.type(0).dtype;
  if (dtype == DType::kInt64) return constant;
  return node.add("cast", {constant}, {{"dtype", std::string(dtype_name(dtype))}});
}

/// x 2^y or x / 2^y; 0 where y is as many as there are bits.
void convert_bit_shift(NodeImport& node) {
  const int64_t bits = unsigned_bits(node);
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    fail("direction is \"{}\", expected LEFT or RIGHT", direction);
  const NodeInput zero = constant_of_type(node, 0);
  const NodeInput places = node.input(1);
  const NodeInput stays = node.add("lt", {places, NodeImport::integer_of(bits)});
  const NodeInput used = node.add("where", {stays, places, zero});
  const NodeInput factor = node.add("pow", {constant_of_type(node, 2), used});
  const NodeInput shifted = node.add(direction == "LEFT" ? "mul" : "div", {node.input(0), factor});
  node.set_output(0, node.add("where", {stays, shifted, zero}));
}

/// All bits of an integer are its distance from the one that has all bits.
void convert_bitwise_not(NodeImport& node) {
  const NarrowType* const narrow = node.narrow_type(0);
  if (is_floating_point(node.type(0).dtype) || node.type(0).dtype == DType::kBool)
    node.refuse(fmt::format("bits of {}", dtype_name(node.type(0).dtype)));
  int64_t all = node.type(0).dtype == DType::kUInt8 ? UINT8_MAX : -1;
  if (narrow != nullptr && !narrow->is_signed) all = static_cast<int64_t>(narrow->high());
  node.set_output(0, node.add("sub", {constant_of_type(node, all), node.input(0)}));
}

}  // namespace

OnnxConverterList integer_converters() {
  return {{"BitShift", convert_bit_shift}, {"BitwiseNot", convert_bitwise_not}};
}

}  // namespace detent
