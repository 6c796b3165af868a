#include <algorithm>
#include <cmath>
#include <functional>

#include "detent/core/convert.h"
#include "detent/core/pair_functions.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/known_elements.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

const Operand& a_tensor_of(std::span<const Operand> inputs) {
  const auto tensor = std::ranges::find_if(inputs, &Operand::is_tensor);
  if (tensor == inputs.end()) fail("got numbers only, expected a tensor among the inputs");
  return *tensor;
}

/// Numbers broadcast like tensors of rank 0.
Shape broadcast_inputs(std::span<const Operand> inputs) {
  Shape shape;
  for (const Operand& input : inputs) {
    if (input.is_tensor()) shape = broadcast_shapes(shape, input.shape);
  }
  return shape;
}

void expect_numbers(const Operand& tensor) {
  if (tensor.dtype == DType::kBool) fail("got tensors of dtype bool, expected numbers");
}

void expect_one_dtype(std::span<const Operand> inputs) {
  const DType first = a_tensor_of(inputs).dtype;
  for (const Operand& input : inputs) {
    if (!input.is_tensor() || input.dtype == first) continue;
    fail("got tensors of dtype {} and {}, expected one dtype", dtype_name(first), dtype_name(input.dtype));
  }
}

template <class Function>
std::optional<Tensor> pair_elements(const Node&, std::span<const Operand> inputs, const Operand& result) {
  return arithmetic_elements<Function>(inputs, result);
}

/// Only a run says what integers are that are divided by 0.
template <class Function>
std::optional<Tensor> divided_elements(const Node&, std::span<const Operand> inputs, const Operand& result) {
  const auto divisors = known_tensor(inputs, 1, a_tensor_of(inputs).dtype);
  if (!divisors) return std::nullopt;
  const Tensor defined = to_dtype(*divisors, DType::kBool);
  if (!is_floating_point(divisors->dtype()) && !std::ranges::all_of(defined.values<bool>(), std::identity()))
    return std::nullopt;
  return arithmetic_elements<Function>(inputs, result);
}

/// A function of two elements that broadcast, with a result of their dtype.
OperatorSchema arithmetic(const char* name, const char* help, ElementsInference elements) {
  return {.name = name,
          .help = help,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
            expect_numbers(a_tensor_of(inputs));
            return {broadcast_inputs(inputs), Value()};
          },
          .dtypes = DTypeRule::kKept,
          .elements = std::move(elements),
          .takes_open_sizes = true,
          .quantizable = true};
}

/// Elements of two types are powered in double.
std::optional<Tensor> power_elements(const Node&, std::span<const Operand> inputs, const Operand& result) {
  const auto base = known_tensor(inputs, 0, result.dtype);
  const auto exponent = known_tensor(inputs, 1, result.dtype);
  if (base && exponent && base->dtype() == exponent->dtype() && result.dtype != DType::kBool)
    return arithmetic_elements<Power>(inputs, result);
  const auto wide = [](std::span<const Operand> operands, size_t index) {
    std::optional<Tensor> elements = known_tensor(operands, index, DType::kFloat64);
    if (elements) elements = to_dtype(*elements, DType::kFloat64);
    return Operand{operands[index].shape, Value(), DType::kFloat64, false, elements};
  };
  const Operand doubles[] = {wide(inputs, 0), wide(inputs, 1)};
  const auto elements = arithmetic_elements<Power>(doubles, {result.shape, Value(), DType::kFloat64});
  return elements ? std::optional(to_dtype(*elements, result.dtype)) : std::nullopt;
}

/// The result has the base's dtype, whatever the exponent's.
OperatorSchema power() {
  OperatorSchema schema = arithmetic("pow", "a^b", power_elements);
  schema.dtypes = DTypeRule::kOwn;
  schema.infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
    for (const Operand& input : inputs) {
      if (input.is_tensor()) expect_numbers(input);
    }
    return {broadcast_inputs(inputs), Value(), inputs[0].dtype};
  };
  return schema;
}

Operand infer_comparison(const Node&, std::span<const Operand> inputs) {
  expect_one_dtype(inputs);
  return {broadcast_inputs(inputs), Value(), DType::kBool};
}

template <class Function>
std::optional<Tensor> compared_elements(const Node&, std::span<const Operand> inputs, const Operand& result) {
  return paired_elements(inputs, result, []<class T>(T a, T b) -> bool { return Function()(a, b); });
}

OperatorSchema comparison(const char* name, const char* help, ElementsInference elements) {
  return {.name = name,
          .help = help,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_comparison,
          .dtypes = DTypeRule::kOwn,
          .elements = std::move(elements),
          .takes_open_sizes = true};
}

/// A function of the bits of two integers.
template <class Function>
OperatorSchema bitwise(const char* name, const char* help) {
  const auto elements = [](const Node&, std::span<const Operand> inputs, const Operand& result) {
    return paired_elements(inputs, result, []<class T>(T a, T b) -> T {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
        return Function::of(a, b);
      else
        return a;
    });
  };
  return {.name = name,
          .help = help,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
            const DType dtype = a_tensor_of(inputs).dtype;
            if (is_floating_point(dtype) || dtype == DType::kBool)
              fail("got tensors of dtype {}, expected integers", dtype_name(dtype));
            return {broadcast_inputs(inputs), Value()};
          },
          .dtypes = DTypeRule::kKept,
          .elements = elements,
          .takes_open_sizes = true};
}

/// Where one side is `decisive` throughout, the other does not matter.
template <class Function>
std::optional<Tensor> joined_elements(const Node& node, std::span<const Operand> inputs,
                                      const Operand& result) {
  constexpr bool kDecisive = std::is_same_v<Function, std::logical_or<>>;
  for (const Operand& input : inputs) {
    if (!input.elements || input.elements->dtype() != DType::kBool) continue;
    const auto values = std::as_const(*input.elements).values<bool>();
    if (std::ranges::find(values, !kDecisive) != values.end()) continue;
    Tensor all(DType::kBool, result.shape);
    std::ranges::fill(all.values<bool>(), kDecisive);
    return all;
  }
  return compared_elements<Function>(node, inputs, result);
}

OperatorSchema logical(const char* name, const char* help, size_t inputs, ElementsInference elements) {
  return {.name = name,
          .help = help,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .infer = [](const Node&, std::span<const Operand> operands) -> Operand {
            for (const Operand& operand : operands) {
              if (operand.is_tensor() && operand.dtype == DType::kBool) continue;
              fail("got {}, expected tensors of dtype bool",
                   operand.is_tensor() ? dtype_name(operand.dtype) : value_text(operand.value));
            }
            return {broadcast_inputs(operands), Value(), DType::kBool};
          },
          .dtypes = DTypeRule::kOwn,
          .elements = std::move(elements),
          .takes_open_sizes = true};
}

std::optional<Tensor> negated_elements(const Node&, std::span<const Operand> inputs, const Operand& result) {
  if (!inputs[0].elements) return std::nullopt;
  Tensor elements(DType::kBool, result.shape);
  std::ranges::transform(std::as_const(*inputs[0].elements).values<bool>(), elements.values<bool>().begin(),
                         std::logical_not());
  return elements;
}

OperatorSchema test_of_floats(const char* name, const char* help, std::vector<AttributeSchema> attributes) {
  return {.name = name,
          .help = help,
          .attributes = std::move(attributes),
          .infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
            const Shape& shape = tensor_shape(inputs, 0);
            if (!is_floating_point(inputs[0].dtype))
              fail("got a tensor of {}, expected float32", dtype_name(inputs[0].dtype));
            return {shape, Value(), DType::kBool};
          },
          .dtypes = DTypeRule::kOwn,
          .takes_open_sizes = true};
}

Operand infer_where(const Node&, std::span<const Operand> inputs) {
  tensor_shape(inputs, 0);
  if (inputs[0].dtype != DType::kBool)
    fail("input 0 is {}, expected a condition: bool", dtype_name(inputs[0].dtype));
  expect_one_dtype(inputs.subspan(1));
  return {broadcast_inputs(inputs), Value(), a_tensor_of(inputs.subspan(1)).dtype};
}

std::optional<Tensor> where_elements(const Node&, std::span<const Operand> inputs, const Operand& result) {
  const auto condition = inputs[0].elements;
  const auto a = known_tensor(inputs, 1, result.dtype);
  const auto b = known_tensor(inputs, 2, result.dtype);
  if (!condition || !a || !b) return std::nullopt;
  const auto repeated = [&](const Tensor& tensor) {
    return gathered(tensor, StridedView::broadcast(tensor.shape(), result.shape));
  };
  const Tensor choices = repeated(*condition);
  const Tensor otherwise = repeated(*b);
  Tensor elements = repeated(*a);
  visit_words(result.dtype, [&]<class Word>(Word) {
    for (size_t i = 0; const bool is_first : choices.values<bool>()) {
      if (!is_first) words_of<Word>(elements)[i] = words_of<Word>(otherwise)[i];
      ++i;
    }
  });
  return elements;
}

OperatorSchema where() {
  return {.name = "where",
          .help = "elements of input 1 where input 0 holds, else of input 2",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_where,
          .dtypes = DTypeRule::kOwn,
          .elements = where_elements,
          .takes_open_sizes = true,
          .quantizable = true};
}

/// The slope broadcasts to the input, not the other way.
OperatorSchema prelu() {
  return {
      .name = "prelu",
      .help = "x, or slope times x below 0, where input 1 is the slope (He et al. 2015, arXiv:1502.01852)",
      .min_inputs = 2,
      .max_inputs = 2,
      .infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
        const Shape& shape = tensor_shape(inputs, 0);
        if (broadcast_shapes(shape, tensor_shape(inputs, 1)) != shape) {
          fail("the slope of shape {} does not broadcast to {}", shape_text(inputs[1].shape),
               shape_text(shape));
        }
        return {shape, Value()};
      },
      .trait = PairOperation::kPrelu,
      .quantizable = true};
}

OperatorSchema division() {
  OperatorSchema schema =
      arithmetic("div", "a / b; of integers the quotient without fraction", divided_elements<Quotient>);
  schema.trait = PairOperation::kDiv;
  return schema;
}

}  // namespace

std::vector<OperatorSchema> elementwise_operators() {
  const AttributeSchema negative{"negative", AttributeKind::kBoolean, true, "count minus infinity"};
  const AttributeSchema positive{"positive", AttributeKind::kBoolean, true, "count plus infinity"};
  std::vector<OperatorSchema> schemas = {
      division(),
      arithmetic("remainder", "a - floor(a / b) b, which has the sign of b", divided_elements<FloorRest>),
      arithmetic("fmod", "a - trunc(a / b) b, which has the sign of a", divided_elements<TruncationRest>),
      arithmetic("minimum", "the smaller of two", pair_elements<Smaller>),
      arithmetic("maximum", "the larger of two", pair_elements<Larger>),
      power(),
      bitwise<CommonBits>("bitwise_and", "the bits that both integers have"),
      bitwise<AllBits>("bitwise_or", "the bits that one or both integers have"),
      bitwise<DifferentBits>("bitwise_xor", "the bits that just one of both integers has"),
      comparison("eq", "a = b", compared_elements<std::equal_to<>>),
      comparison("lt", "a < b", compared_elements<std::less<>>),
      comparison("le", "a <= b", compared_elements<std::less_equal<>>),
      comparison("gt", "a > b", compared_elements<std::greater<>>),
      comparison("ge", "a >= b", compared_elements<std::greater_equal<>>),
      logical("logical_and", "whether both hold", 2, joined_elements<std::logical_and<>>),
      logical("logical_or", "whether one of both holds", 2, joined_elements<std::logical_or<>>),
      logical("logical_xor", "whether just one of both holds", 2, compared_elements<std::not_equal_to<>>),
      logical("logical_not", "whether it does not hold", 1, negated_elements),
      test_of_floats("isnan", "whether it is NaN", {}),
      test_of_floats("isinf", "whether it is infinite", {negative, positive}),
      where(),
      prelu(),
  };
  for (OperatorSchema& schema : schemas) schema.elementwise = true;
  return schemas;
}

}  // namespace detent
