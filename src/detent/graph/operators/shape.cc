#include <algorithm>

#include "detent/graph/operators/families.h"

namespace detent {
namespace {

Operand infer_size(const Node&, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  const auto* dim = inputs[1].value.get_if<int64_t>();
  if (dim == nullptr) fail("the dimension is {}, expected an integer", value_text(inputs[1].value));
  return {{1}, Value(shape[dimension_index(*dim, shape.size())])};
}

/// Dimensions come as inputs 1, 2, ...; one of them may be -1 and takes what is left.
Operand infer_reshape(const Node&, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  Shape wanted;
  for (const Operand& input : inputs.subspan(1)) {
    const auto* size = input.value.get_if<int64_t>();
    if (size == nullptr || *size < -1)
      fail("a dimension is {}, expected an integer of at least -1", value_text(input.value));
    wanted.push_back(*size);
  }
  const int64_t count = element_count(shape);
  if (std::ranges::count(wanted, -1) > 1) fail("more than one dimension is -1");
  const auto open = std::ranges::find(wanted, -1);
  if (open != wanted.end()) {
    *open = 1;
    const int64_t rest = element_count(wanted);
    *open = rest > 0 ? count / rest : 0;
  }
  if (element_count(wanted) != count) {
    fail("{} elements of shape {} do not fit into {}", count, shape_text(shape), shape_text(wanted));
  }
  return {std::move(wanted), Value()};
}

Operand infer_flatten(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  const size_t start = dimension_index(integer_attribute(node, "start_dim"), shape.size());
  const size_t end = dimension_index(integer_attribute(node, "end_dim"), shape.size());
  if (start > end) fail("start_dim {} is behind end_dim {}", start, end);
  Shape result(shape.begin(), shape.begin() + static_cast<int64_t>(start));
  result.push_back(element_count(
      {shape.begin() + static_cast<int64_t>(start), shape.begin() + static_cast<int64_t>(end) + 1}));
  result.insert(result.end(), shape.begin() + static_cast<int64_t>(end) + 1, shape.end());
  return {std::move(result), Value()};
}

constexpr size_t kMostDims = 8;

OperatorSchema reshape(const char* name) {
  return {.name = name,
          .help = "the same elements in another shape; dimensions are inputs 1, 2, ...; one may be -1",
          .mase_type = MaseType::kImplicitFunc,
          .min_inputs = 2,
          .max_inputs = 1 + kMostDims,
          .infer = infer_reshape,
          .onnx_name = "Reshape"};
}

}  // namespace

std::vector<OperatorSchema> shape_operators() {
  return {
      {.name = "size",
       .help = "the size of the dimension that input 1 gives",
       .mase_type = MaseType::kImplicitFunc,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_size},
      reshape("view"),
      reshape("reshape"),
      {.name = "flatten",
       .help = "joins the dimensions start_dim to end_dim",
       .mase_type = MaseType::kImplicitFunc,
       .attributes = {{"start_dim", AttributeKind::kInteger, 1, "first dimension to join"},
                      {"end_dim", AttributeKind::kInteger, -1, "last dimension to join"}},
       .infer = infer_flatten,
       .onnx_name = "Flatten"},
  };
}

}  // namespace detent
