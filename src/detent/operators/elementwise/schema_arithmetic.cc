#include <algorithm>
#include <limits>

#include "detent/operators/schema.h"

namespace detent {
namespace {

/// Elementwise with broadcasting; numbers (constants, sizes) broadcast like tensors of rank 0.
Operand infer_elementwise(const Node&, std::span<const Operand> inputs) {
  const Operand& a = inputs[0];
  const Operand& b = inputs[1];
  if (!a.is_tensor() && !b.is_tensor()) fail("got two numbers, expected a tensor among the inputs");
  if ((a.is_tensor() ? a : b).dtype == DType::kBool) fail("got tensors of dtype bool, expected numbers");
  if (!a.is_tensor()) return {b.shape, Value()};
  if (!b.is_tensor()) return {a.shape, Value()};
  return {broadcast_shapes(a.shape, b.shape), Value()};
}

/// The bounds broadcast against the input, but not the other way.
Operand infer_clamp(const Node&, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  for (const Operand& bound : inputs.subspan(1)) {
    if (!bound.is_tensor() || broadcast_shapes(shape, bound.shape) == shape) continue;
    fail("a bound has shape {}, which does not broadcast to {}", shape_text(bound.shape), shape_text(shape));
  }
  return {shape, Value()};
}

/// With bounds that are numbers, as float32 has them.
Unary::Function clamp_function(const Node& node) {
  const auto bound = [&](size_t input, double otherwise) {
    double scratch = 0;
    const double* number = node.inputs[input].constant.number(scratch);
    return number == nullptr ? otherwise : static_cast<double>(static_cast<float>(*number));
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return [low = bound(1, -kInfinity), high = bound(2, kInfinity)](double x) {
    return std::min(std::max(x, low), high);
  };
}

OperatorSchema clamp_schema() {
  return {.name = "clamp",
          .help = "min(max(x, low), high); low and high, inputs 1 and 2, may be absent",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_clamp,
          .elementwise = true,
          .optional_operands = {"data_in_1", "data_in_2"},
          .trait = Unary{clamp_function},
          .quantizable = true};
}

OperatorSchema elementwise(const char* name, const char* help, PairOperation operation) {
  return {.name = name,
          .help = help,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_elementwise,
          .dtypes = DTypeRule::kKept,
          .takes_open_sizes = true,
          .trait = operation,
          .quantizable = true};
}

}  // namespace

std::vector<OperatorSchema> arithmetic_operators() {
  return {elementwise("add", "a + b", PairOperation::kAdd), elementwise("sub", "a - b", PairOperation::kSub),
          elementwise("mul", "a * b", PairOperation::kMul), clamp_schema()};
}

}  // namespace detent
