#include <algorithm>
#include <set>
#include <utility>

#include "detent/operators/schema.h"

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
  if (std::ranges::count(wanted, -1) > 1) fail("more than one dimension is -1");
  static_assert(kOpenSize == -1);
  if (inputs[0].is_open()) return {std::move(wanted), Value()};
  const int64_t count = element_count(shape);
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
  if (start > end) fail("start_dim {} is after end_dim {}", start, end);
  Shape result(shape.begin(), shape.begin() + static_cast<int64_t>(start));
  result.push_back(element_count(
      {shape.begin() + static_cast<int64_t>(start), shape.begin() + static_cast<int64_t>(end) + 1}));
  result.insert(result.end(), shape.begin() + static_cast<int64_t>(end) + 1, shape.end());
  return {std::move(result), Value()};
}

constexpr size_t kMostSizeInputs = 8;

Operand infer_transpose(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  std::swap(shape[dimension_index(integer_attribute(node, "dim0"), shape.size())],
            shape[dimension_index(integer_attribute(node, "dim1"), shape.size())]);
  return {std::move(shape), Value()};
}

std::vector<StridedCopy> transposed(const Node& node, std::span<const Shape> inputs, const Shape& result) {
  StridedView from = StridedView::of(inputs[0]);
  from.shape = result;
  std::swap(from.strides[dimension_index(integer_attribute(node, "dim0"), result.size())],
            from.strides[dimension_index(integer_attribute(node, "dim1"), result.size())]);
  return whole_result(from);
}

Operand infer_permute(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  const std::vector<int64_t> dims = integers_attribute(node, "dims");
  Shape result;
  std::set<size_t> taken;
  for (const int64_t dim : dims) {
    const size_t index = dimension_index(dim, shape.size());
    taken.insert(index);
    result.push_back(shape[index]);
  }
  if (dims.size() != shape.size() || taken.size() != shape.size()) {
    fail("attribute \"dims\": got {}, expected each of {} dimensions once", shape_text(dims), shape.size());
  }
  return {std::move(result), Value()};
}

std::vector<StridedCopy> permuted(const Node& node, std::span<const Shape> inputs, const Shape& result) {
  const StridedView input = StridedView::of(inputs[0]);
  StridedView from{result, {}};
  for (const int64_t dim : integers_attribute(node, "dims")) {
    from.strides.push_back(input.strides[dimension_index(dim, result.size())]);
  }
  return whole_result(from);
}

/// Sizes come as inputs 1, 2, ..., one a dimension; -1 keeps it.
Operand infer_expand(const Node&, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  if (inputs.size() != shape.size() + 1) {
    fail("got {} sizes for an input of shape {}, expected one a dimension", inputs.size() - 1,
         shape_text(shape));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto* size = inputs[i + 1].value.get_if<int64_t>();
    const bool fits = size != nullptr && (*size == -1 || *size == shape[i] || (shape[i] == 1 && *size > 0));
    if (!fits) {
      fail("size {} is {}, expected -1{} for an input of shape {}", i, value_text(inputs[i + 1].value),
           shape[i] == 1 ? " or an integer above 0" : fmt::format(" or {}", shape[i]), shape_text(shape));
    }
    if (*size != -1) shape[i] = *size;
  }
  return {std::move(shape), Value()};
}

std::vector<StridedCopy> expanded(const Node& /*node*/, std::span<const Shape> inputs, const Shape& result) {
  return whole_result(StridedView::broadcast(inputs[0], result));
}

OperatorSchema reshape(const char* name) {
  return {.name = name,
          .help = "the same elements in another shape; dimensions are inputs 1, 2, ...; one may be -1",
          .mase_type = MaseType::kImplicitFunc,
          .min_inputs = 2,
          .max_inputs = 1 + kMostSizeInputs,
          .infer = infer_reshape,
          .dtypes = DTypeRule::kKept,
          .takes_open_sizes = true,
          .trait = Movement{}};
}

}  // namespace

std::vector<OperatorSchema> shape_operators() {
  return {
      {.name = "size",
       .help = "the size of the dimension that input 1 gives",
       .mase_type = MaseType::kImplicitFunc,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_size,
       .dtypes = DTypeRule::kOwn,
       .role = OperatorRole::kNumber},
      reshape("view"),
      reshape("reshape"),
      {.name = "flatten",
       .help = "joins the dimensions start_dim to end_dim",
       .mase_type = MaseType::kImplicitFunc,
       .attributes = {{"start_dim", AttributeKind::kInteger, 1, "first dimension to join"},
                      {"end_dim", AttributeKind::kInteger, -1, "last dimension to join"}},
       .infer = infer_flatten,
       .dtypes = DTypeRule::kKept,
       .trait = Movement{}},
      {.name = "transpose",
       .help = "exchanges two dimensions",
       .mase_type = MaseType::kImplicitFunc,
       .attributes = {{"dim0", AttributeKind::kInteger, Value(), "one of them"},
                      {"dim1", AttributeKind::kInteger, Value(), "the other"}},
       .infer = infer_transpose,
       .dtypes = DTypeRule::kKept,
       .trait = Movement{transposed}},
      {.name = "permute",
       .help = "puts the dimensions into another order",
       .mase_type = MaseType::kImplicitFunc,
       .attributes = {{"dims", AttributeKind::kIntegers, Value(), "the old dimension at each new place"}},
       .infer = infer_permute,
       .dtypes = DTypeRule::kKept,
       .trait = Movement{permuted}},
      {.name = "expand",
       .help = "repeats dimensions of size 1 to the sizes that inputs 1, 2, ... give; -1 keeps a dimension",
       .mase_type = MaseType::kImplicitFunc,
       .min_inputs = 2,
       .max_inputs = 1 + kMostSizeInputs,
       .infer = infer_expand,
       .dtypes = DTypeRule::kKept,
       .trait = Movement{expanded}},
  };
}

}  // namespace detent
