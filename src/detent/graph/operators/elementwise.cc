#include <algorithm>
#include <cmath>

#include "detent/graph/known_elements.h"
#include "detent/graph/operators/families.h"

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

using Pair = double (*)(double, double);

ElementsInference pair_elements(Pair function, Pair of_integers) {
  return [=](const Node&, std::span<const Operand> inputs, const Operand& result) {
    const bool integers = !is_floating_point(a_tensor_of(inputs).dtype);
    return broadcast_elements(inputs[0], inputs[1], result, integers ? of_integers : function);
  };
}

/// A function of two elements that broadcast, with a result of their dtype.
OperatorSchema arithmetic(const char* name, const char* help, Pair function, Pair of_integers) {
  return {.name = name,
          .help = help,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
            expect_numbers(a_tensor_of(inputs));
            return {broadcast_inputs(inputs), Value()};
          },
          .dtypes = DTypeRule::kKept,
          .elements = pair_elements(function, of_integers),
          .takes_open_sizes = true,
          .quantizable = true};
}

double divide(double a, double b) { return a / b; }
double divide_integers(double a, double b) { return b == 0 ? 0 : std::trunc(a / b); }
double remainder_of_floor(double a, double b) { return b == 0 ? 0 : a - std::floor(a / b) * b; }
double remainder_of_trunc(double a, double b) { return b == 0 ? 0 : std::fmod(a, b); }

/// The result has the base's dtype, whatever the exponent's.
OperatorSchema power() {
  OperatorSchema schema = arithmetic("pow", "a^b", std::pow, std::pow);
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

OperatorSchema comparison(const char* name, const char* help, Pair function) {
  return {.name = name,
          .help = help,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_comparison,
          .dtypes = DTypeRule::kOwn,
          .elements = pair_elements(function, function),
          .takes_open_sizes = true};
}

OperatorSchema logical(const char* name, const char* help, size_t inputs) {
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
          .takes_open_sizes = true};
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

std::optional<std::vector<double>> where_elements(const Node&, std::span<const Operand> inputs,
                                                  const Operand& result) {
  const auto condition = known_numbers(inputs, 0);
  const auto a = known_numbers(inputs, 1);
  const auto b = known_numbers(inputs, 2);
  if (!condition || !a || !b) return std::nullopt;
  const auto count = static_cast<size_t>(element_count(result.shape));
  std::vector<double> elements;
  for (size_t i = 0; i < count; ++i) {
    const auto at = [&](const std::vector<double>& from) { return from.size() == 1 ? 0 : i; };
    if (at(*condition) >= condition->size() || at(*a) >= a->size() || at(*b) >= b->size())
      return std::nullopt;
    elements.push_back((*condition)[at(*condition)] != 0 ? (*a)[at(*a)] : (*b)[at(*b)]);
  }
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
      arithmetic("div", "a / b; of integers the quotient without fraction", divide, divide_integers);
  schema.trait = PairOperation::kDiv;
  return schema;
}

}  // namespace

std::vector<OperatorSchema> elementwise_operators() {
  const AttributeSchema negative{"negative", AttributeKind::kBoolean, true, "count minus infinity"};
  const AttributeSchema positive{"positive", AttributeKind::kBoolean, true, "count plus infinity"};
  return {
      division(),
      arithmetic("remainder", "a - floor(a / b) b, which has the sign of b", remainder_of_floor,
                 remainder_of_floor),
      arithmetic("fmod", "a - trunc(a / b) b, which has the sign of a", remainder_of_trunc,
                 remainder_of_trunc),
      arithmetic("minimum", "the smaller of two", std::fmin, std::fmin),
      arithmetic("maximum", "the larger of two", std::fmax, std::fmax),
      power(),
      comparison("eq", "a = b", [](double a, double b) { return a == b ? 1.0 : 0.0; }),
      comparison("lt", "a < b", [](double a, double b) { return a < b ? 1.0 : 0.0; }),
      comparison("le", "a <= b", [](double a, double b) { return a <= b ? 1.0 : 0.0; }),
      comparison("gt", "a > b", [](double a, double b) { return a > b ? 1.0 : 0.0; }),
      comparison("ge", "a >= b", [](double a, double b) { return a >= b ? 1.0 : 0.0; }),
      logical("logical_and", "whether both hold", 2),
      logical("logical_or", "whether one of both holds", 2),
      logical("logical_xor", "whether just one of both holds", 2),
      logical("logical_not", "whether it does not hold", 1),
      test_of_floats("isnan", "whether it is NaN", {}),
      test_of_floats("isinf", "whether it is infinite", {negative, positive}),
      where(),
      prelu(),
  };
}

}  // namespace detent
