#include <climits>

#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Operators on the bits of integers, as arithmetic.

struct Bits {
  int64_t count = 0;
  bool is_signed = false;
};

/// Bits of input 0. Refuses the node where it has no integers.
Bits bits_of(const NodeImport& node) {
  const NarrowType* const narrow = node.narrow_type(0);
  const DType dtype = node.type(0).dtype;
  if (is_floating_point(dtype) || dtype == DType::kBool)
    node.refuse(fmt::format("bits of {}", narrow != nullptr ? narrow->name : dtype_name(dtype)));
  constexpr int64_t kWidest = 64;
  if (narrow != nullptr) return {narrow->bits, narrow->is_signed || narrow->bits == kWidest};
  return {static_cast<int64_t>(CHAR_BIT * dtype_size(dtype)), dtype != DType::kUInt8};
}

/// A number of the input's type.
NodeInput constant_of_type(NodeImport& node, int64_t number) {
  const NodeInput constant = node.constant_of(Tensor::from<int64_t>({}, std::vector{number}));
  const DType dtype = node.type(0).dtype;
  if (dtype == DType::kInt64) return constant;
  return node.add("cast", {constant}, {{"dtype", std::string(dtype_name(dtype))}});
}

NodeInput power_of_two(NodeImport& node, const NodeInput& exponent) {
  return node.add("pow", {constant_of_type(node, 2), exponent});
}

/// floor(x / 2^y), where 2^y is a positive number of the type.
NodeInput shifted_right(NodeImport& node, const NodeInput& x, const NodeInput& places) {
  const NodeInput divisor = power_of_two(node, places);
  return node.add("div", {node.add("sub", {x, node.add("remainder", {x, divisor})}), divisor});
}

/// By all places but one only the sign stays; in two steps, since 2 to all places but one is negative.
NodeInput signed_shifted_right(NodeImport& node, const NodeInput& places, const NodeInput& moves,
                               int64_t bits) {
  const NodeInput used = node.add("where", {moves, places, constant_of_type(node, bits - 1)});
  const NodeInput half = node.add("div", {used, NodeImport::integer_of(2)});
  const NodeInput x = shifted_right(node, node.input(0), half);
  return shifted_right(node, x, node.add("sub", {used, half}));
}

/// x 2^y or floor(x / 2^y), for y below the number of bits; else 0, or -1 of what has a sign and goes right.
void convert_bit_shift(NodeImport& node) {
  const Bits bits = bits_of(node);
  const std::string direction = node.text("direction", "");
  const bool goes_left = direction == "LEFT";
  if (!goes_left && direction != "RIGHT") fail("direction is \"{}\", expected LEFT or RIGHT", direction);
  const NodeInput places = node.input(1);
  NodeInput moves = node.add("lt", {places, NodeImport::integer_of(bits.count)});
  if (bits.is_signed)
    moves = node.add("logical_and", {moves, node.add("ge", {places, NodeImport::integer_of(0)})});
  if (bits.is_signed && !goes_left)
    return node.set_output(0, signed_shifted_right(node, places, moves, bits.count));
  const NodeInput zero = constant_of_type(node, 0);
  const NodeInput factor = power_of_two(node, node.add("where", {moves, places, zero}));
  const NodeInput shifted = node.add(goes_left ? "mul" : "div", {node.input(0), factor});
  node.set_output(0, node.add("where", {moves, shifted, zero}));
}

/// All bits of an integer are its distance from the one that has all bits.
void convert_bitwise_not(NodeImport& node) {
  const Bits bits = bits_of(node);
  const int64_t all = bits.is_signed ? -1 : (int64_t{1} << bits.count) - 1;
  node.set_output(0, node.add("sub", {constant_of_type(node, all), node.input(0)}));
}

template <const char* kName>
void convert_bitwise_pair(NodeImport& node) {
  bits_of(node);
  node.set_output(0, node.add(kName, {node.input(0), node.input(1)}));
}

constexpr char kBitwiseAnd[] = "bitwise_and";
constexpr char kBitwiseOr[] = "bitwise_or";
constexpr char kBitwiseXor[] = "bitwise_xor";

}  // namespace

OnnxConverterList integer_converters() {
  return {{"BitShift", convert_bit_shift},
          {"BitwiseNot", convert_bitwise_not},
          {"BitwiseAnd", convert_bitwise_pair<kBitwiseAnd>},
          {"BitwiseOr", convert_bitwise_pair<kBitwiseOr>},
          {"BitwiseXor", convert_bitwise_pair<kBitwiseXor>}};
}

}  // namespace detent
