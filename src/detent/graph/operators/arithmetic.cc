#include <algorithm>

#include "detent/graph/operators/families.h"

namespace detent {
namespace {

/// Elementwise with broadcasting; numbers (constants, sizes) broadcast like tensors of rank 0.
Operand infer_elementwise(const Node&, std::span<const Operand> inputs) {
  const Operand& a = inputs[0];
  const Operand& b = inputs[1];
  if (!a.is_tensor() && !b.is_tensor()) fail("got two numbers, expected a tensor among the inputs");
  if (!a.is_tensor()) return b;
  if (!b.is_tensor()) return a;
  return {broadcast_shapes(a.shape, b.shape), Value()};
}

OperatorSchema elementwise(const char* name, const char* help, PairOperation operation) {
  return {.name = name,
          .help = help,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_elementwise,
          .trait = operation,
          .quantizable = true};
}

}  // namespace

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) {
      fail("shapes {} and {} do not broadcast", shape_text(a), shape_text(b));
    }
    shape[shape.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return shape;
}

std::vector<OperatorSchema> arithmetic_operators() {
  return {elementwise("add", "a + b", PairOperation::kAdd), elementwise("sub", "a - b", PairOperation::kSub),
          elementwise("mul", "a * b", PairOperation::kMul)};
}

}  // namespace detent
