#include <algorithm>
#include <set>

#include "detent/core/convert.h"
#include "detent/core/pair_functions.h"
#include "detent/graph/known_elements.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

/// A shape without the dimensions that input 1 names, or all where there is none; with `keepdim` they stay,
/// of size 1.
Operand infer_reduction(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  if (inputs[0].dtype == DType::kBool) fail("got a tensor of dtype bool, expected numbers");
  const bool keep = boolean_attribute(node, "keepdim");
  std::optional<std::vector<int64_t>> dims = std::vector<int64_t>();
  if (is_given(inputs, 1)) dims = known_integers(inputs, 1);
  if (!dims) {
    const int64_t count = inputs[1].shape.empty() ? 1 : inputs[1].shape[0];
    if (count == kOpenSize || count > std::ssize(shape))
      fail("input 1 names {} dimensions of {}", count, shape.size());
    return {Shape(keep ? shape.size() : shape.size() - static_cast<size_t>(count), kOpenSize), Value()};
  }
  std::set<size_t> reduced;
  for (const int64_t dim : *dims) reduced.insert(dimension_index(dim, shape.size()));
  Shape result;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool is_reduced = dims->empty() || reduced.contains(d);
    if (!is_reduced) result.push_back(shape[d]);
    if (is_reduced && keep) result.push_back(1);
  }
  return {std::move(result), Value()};
}

/// Folds a list, as networks compute the number of elements of a shape.
template <class Function>
std::optional<Tensor> folded_list(const Node&, std::span<const Operand> inputs, const Operand& result) {
  const Operand& list = inputs[0];
  const bool is_list = list.elements && list.shape.size() == 1 && list.elements->numel() > 0;
  if (!is_list || !is_number_type(list.dtype) || element_count(result.shape) != 1) return std::nullopt;
  return visit_numbers(list.dtype, [&]<class T>(T) {
    Tensor folded(result.dtype, result.shape);
    if constexpr (!std::is_same_v<T, bool>) {
      const std::span<const T> values = std::as_const(*list.elements).template values<T>();
      T& element = folded.values<T>()[0] = values[0];
      for (const T value : values.subspan(1)) element = Function::of(element, value);
    }
    return folded;
  });
}

OperatorSchema reduction(const char* name, const char* help, ElementsInference elements = {}) {
  OperatorSchema schema = {
      .name = name,
      .help = help,
      .max_inputs = 2,
      .attributes = {{"keepdim", AttributeKind::kBoolean, false, "keep these dimensions, with size 1"}},
      .infer = infer_reduction,
      .dtypes = DTypeRule::kOwn,
      .takes_open_sizes = true,
      .optional_operands = {"data_in_1"},
      .quantizable = true,
      .index_operands = {"data_in_1"}};
  schema.infer = [](const Node& node, std::span<const Operand> inputs) {
    Operand result = infer_reduction(node, inputs);
    result.dtype = inputs[0].dtype;
    return result;
  };
  schema.elements = std::move(elements);
  return schema;
}

OperatorSchema position_of_extreme(const char* name, const char* help) {
  return {.name = name,
          .help = help,
          .attributes = {{"dim", AttributeKind::kInteger, 0, "the dimension"},
                         {"keepdim", AttributeKind::kBoolean, true, "keep it, with size 1"},
                         {"select_last_index", AttributeKind::kBoolean, false,
                          "of several equal elements the last instead of the first"}},
          .infer = [](const Node& node, std::span<const Operand> inputs) -> Operand {
            Shape shape = tensor_shape(inputs, 0);
            const size_t dim = dimension_index(integer_attribute(node, "dim"), shape.size());
            if (shape[dim] == 0) fail("dimension {} has no elements", dim);
            shape[dim] = 1;
            if (!boolean_attribute(node, "keepdim")) shape.erase(shape.begin() + static_cast<int64_t>(dim));
            return {std::move(shape), Value(), DType::kInt64};
          },
          .dtypes = DTypeRule::kOwn,
          .takes_open_sizes = true};
}

OperatorSchema cumulative_sum() {
  return {.name = "cumsum",
          .help = "sums of all elements up to each, along the dimension that input 1 names",
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {{"exclusive", AttributeKind::kBoolean, false, "leave the element itself out"},
                         {"reverse", AttributeKind::kBoolean, false, "from the end"}},
          .infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
            const Shape& shape = tensor_shape(inputs, 0);
            if (inputs[0].dtype == DType::kBool) fail("got a tensor of dtype bool, expected numbers");
            expect_one_element(inputs, 1);
            if (const auto dim = known_integers(inputs, 1)) dimension_index(dim->front(), shape.size());
            return {shape, Value(), inputs[0].dtype};
          },
          .dtypes = DTypeRule::kOwn,
          .takes_open_sizes = true,
          .quantizable = true,
          .index_operands = {"data_in_1"}};
}

/// Values and their positions.
OperatorSchema top_k() {
  return {.name = "topk",
          .help = "the k = input 1 largest elements along a dimension, and their positions",
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {{"dim", AttributeKind::kInteger, -1, "the dimension"},
                         {"largest", AttributeKind::kBoolean, true, "or the smallest ones"},
                         {"sorted", AttributeKind::kBoolean, true, "in their order"}},
          .infer_results = [](const Node& node, std::span<const Operand> inputs) -> std::vector<Operand> {
            Shape shape = tensor_shape(inputs, 0);
            const size_t dim = dimension_index(integer_attribute(node, "dim"), shape.size());
            expect_one_element(inputs, 1);
            const auto k = known_integers(inputs, 1);
            if (k && shape[dim] != kOpenSize && (k->front() < 0 || k->front() > shape[dim]))
              fail("input 1 is {}, expected 0 to {}", k->front(), shape[dim]);
            shape[dim] = k ? k->front() : kOpenSize;
            return {{shape, Value(), inputs[0].dtype}, {shape, Value(), DType::kInt64}};
          },
          .result_count = [](const Node&) { return size_t{2}; },
          .dtypes = DTypeRule::kOwn,
          .takes_open_sizes = true,
          .index_operands = {"data_in_1"}};
}

}  // namespace

std::vector<OperatorSchema> reduction_operators() {
  return {
      reduction("sum", "sum over the dimensions that input 1 lists, or all", folded_list<Sum>),
      reduction("mean", "mean over the dimensions that input 1 lists, or all"),
      reduction("prod", "product over the dimensions that input 1 lists, or all", folded_list<Product>),
      reduction("amax", "largest element of the dimensions that input 1 lists, or of all",
                folded_list<Larger>),
      reduction("amin", "smallest element of the dimensions that input 1 lists, or of all",
                folded_list<Smaller>),
      reduction("logsumexp", "log of the sum of exp(x) over the dimensions that input 1 lists, or all"),
      position_of_extreme("argmax", "position of the largest element of a dimension"),
      position_of_extreme("argmin", "position of the smallest element of a dimension"),
      cumulative_sum(),
      top_k(),
  };
}

}  // namespace detent
