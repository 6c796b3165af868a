#include <cmath>

#include "case.h"
#include "detent/core/convert.h"

namespace detent {
namespace {

/// Floats mostly, sometimes integers.
std::vector<DType> numeric(GraphWriter& writer) {
  if (writer.random.chance(0.65)) return {writer.real};
  return writer.random.chance(0.5) ? std::vector{DType::kInt64} : std::vector{DType::kInt32};
}

Numbers pair_numbers(const std::string& op, const Numbers& a, const Numbers& b) {
  if (op == "Add" || op == "Sub") {
    Numbers result = sum(a, b);
    result.is_positive = op == "Add" && a.is_positive && b.is_positive;
    return result;
  }
  return op == "Mul" ? product(a, b) : either(a, b);
}

/// Integers of one element type wrap around, so any size will do.
Numbers of_type(DType dtype, Numbers numbers) {
  if (is_floating_point(dtype)) return numbers;
  numbers.error = 0;
  numbers.step = 1;
  if (numbers.magnitude > 0x1p24) numbers.is_wild = true;
  if (numbers.is_wild) numbers.is_positive = false;
  return numbers;
}

void write_pair(GraphWriter& writer, const std::string& op) {
  const GeneratedValue a =
      writer.operand({.dtypes = numeric(writer), .may_be_wild = true, .most_magnitude = 0x1p20});
  // A number without bound times what is a rounding away from 0 would be anything.
  const bool multiplies = op == "Mul" && a.numbers.is_wild;
  const GeneratedValue b = writer.broadcasting(a.shape, {.dtypes = {a.dtype},
                                                         .may_be_wild = op != "Mul" || a.numbers.error == 0,
                                                         .must_be_exact = multiplies,
                                                         .most_magnitude = 0x1p20});
  const Shape shape = broadcast_shape(a.shape, b.shape);
  const Numbers numbers = of_type(a.dtype, pair_numbers(op, a.numbers, b.numbers));
  writer.random.chance(0.5) ? writer.node(op, {a, b}, {}, {a.dtype, shape, numbers})
                            : writer.node(op, {b, a}, {}, {a.dtype, shape, numbers});
}

/// Divisors are not 0: of integers that has no result, and ONNX Runtime ends.
void write_division(GraphWriter& writer, const std::string& op) {
  const GeneratedValue a =
      writer.operand({.dtypes = numeric(writer), .may_be_wild = true, .most_magnitude = 0x1p20});
  const bool is_wild = a.is_float() && writer.random.chance(0.2);
  const GeneratedValue b =
      writer.broadcasting(a.shape, {.dtypes = {a.dtype},
                                    .content = is_wild ? Content::kSmall : Content::kPositive,
                                    .may_be_wild = is_wild,
                                    .must_be_exact = true,
                                    .most_magnitude = 64});
  const Numbers& divisor = b.numbers;
  Numbers numbers = function_of(a.numbers, 1 / std::max(divisor.step, 0x1p-10),
                                a.numbers.magnitude / std::max(divisor.step, 0x1p-10));
  numbers.is_wild = a.numbers.is_wild || !divisor.is_positive;
  writer.node(op, {a, b}, {}, {a.dtype, broadcast_shape(a.shape, b.shape), of_type(a.dtype, numbers)});
}

/// Positive bases; integers also of exponents that are floats, which are cut then.
void write_power(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const std::vector<DType> dtypes = writer.is_at_least(12) ? numeric(writer) : std::vector{writer.real};
  const GeneratedValue a = writer.operand(
      {.dtypes = dtypes, .content = Content::kPositive, .must_be_exact = true, .most_magnitude = 16});
  DType exponent_type = a.dtype;
  if (writer.is_at_least(12) && random.chance(0.4))
    exponent_type = random.of({writer.real, DType::kInt32, DType::kInt64});
  GeneratedValue b;
  if (is_floating_point(exponent_type)) {
    const float exponent =
        random.of({0.5F, 2.0F, 3.0F, 0.0F, 1.0F, a.is_float() ? -1.0F : 2.0F, a.is_float() ? 1.5F : 0.5F});
    b = writer.constant(
        to_dtype(Tensor::from(random.chance(0.5) ? Shape() : Shape(1, 1), std::vector<float>{exponent}),
                 exponent_type),
        {4, 0.5});
  } else {
    b = writer.scalar(random.between(0, 3), exponent_type);
  }
  const Numbers numbers = function_of(a.numbers, 0, std::pow(a.numbers.magnitude, 3));
  writer.node(op, {a, b}, {}, {a.dtype, broadcast_shape(a.shape, b.shape), of_type(a.dtype, numbers)});
}

void write_mod(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const bool is_float = random.chance(0.4);
  const DType dtype =
      is_float ? writer.real : random.of({DType::kInt32, DType::kInt64, DType::kInt8, DType::kUInt8});
  const GeneratedValue a = writer.operand({.dtypes = {dtype}, .must_be_exact = true});
  const GeneratedValue b =
      writer.broadcasting(a.shape, {.dtypes = {dtype}, .content = Content::kPositive, .must_be_exact = true});
  std::vector<OnnxAttribute> attributes;
  if (is_float || random.chance(0.3)) attributes.emplace_back("fmod", 1);
  Numbers numbers = b.numbers;
  numbers.step = std::min(a.numbers.step, b.numbers.step);
  numbers.is_positive = false;
  writer.node(op, {a, b}, attributes, {dtype, broadcast_shape(a.shape, b.shape), numbers});
}

void write_many(GraphWriter& writer, const std::string& op) {
  const bool compares = op == "Min" || op == "Max";
  std::vector<DType> dtypes = {writer.real};
  if (compares && writer.is_at_least(12) && writer.random.chance(0.4))
    dtypes = {DType::kInt64, DType::kInt32};
  const GeneratedValue first = writer.operand({.dtypes = dtypes, .may_be_wild = compares});
  std::vector<GeneratedValue> inputs = {first};
  Shape shape = first.shape;
  Numbers numbers = first.numbers;
  for (int64_t i = writer.random.between(0, 3); i > 0; --i) {
    const GeneratedValue next =
        writer.broadcasting(shape, {.dtypes = {first.dtype}, .may_be_wild = compares});
    inputs.push_back(next);
    shape = broadcast_shape(shape, next.shape);
    numbers = compares ? either(numbers, next.numbers) : sum(numbers, next.numbers);
  }
  if (op == "Mean") numbers = function_of(numbers, 1, numbers.magnitude);
  numbers.is_positive = false;
  writer.node(op, inputs, {}, {first.dtype, shape, numbers});
}

void write_comparison(GraphWriter& writer, const std::string& op) {
  const bool is_equal = op == "Equal";
  std::vector<DType> dtypes = {DType::kInt64, DType::kInt32};
  if (is_equal && writer.random.chance(0.2)) dtypes = {DType::kBool};
  if ((!is_equal || writer.is_at_least(11)) && writer.random.chance(0.5)) dtypes = {writer.real};
  const GeneratedValue a = writer.operand({.dtypes = dtypes, .may_be_wild = true, .must_be_exact = true});
  const GeneratedValue b =
      writer.broadcasting(a.shape, {.dtypes = {a.dtype}, .may_be_wild = true, .must_be_exact = true});
  writer.node(op, {a, b}, {}, {DType::kBool, broadcast_shape(a.shape, b.shape)});
}

void write_logic(GraphWriter& writer, const std::string& op) {
  const GeneratedValue a = writer.operand({.dtypes = {DType::kBool}});
  const GeneratedValue b = writer.broadcasting(a.shape, {.dtypes = {DType::kBool}});
  writer.node(op, {a, b}, {}, {DType::kBool, broadcast_shape(a.shape, b.shape)});
}

void write_where(GraphWriter& writer, const std::string& op) {
  const GeneratedValue a = writer.operand(
      {.dtypes = {writer.real, DType::kInt64, DType::kInt32, DType::kUInt8}, .may_be_wild = true});
  const GeneratedValue b = writer.broadcasting(a.shape, {.dtypes = {a.dtype}, .may_be_wild = true});
  const Shape shape = broadcast_shape(a.shape, b.shape);
  const GeneratedValue condition = writer.broadcasting(shape, {.dtypes = {DType::kBool}});
  writer.node(op, {condition, a, b}, {},
              {a.dtype, broadcast_shape(condition.shape, shape), either(a.numbers, b.numbers)});
}

}  // namespace

std::vector<OperatorGenerator> pair_generators() {
  return {{"Add", 7, write_pair},
          {"Sub", 7, write_pair},
          {"Mul", 7, write_pair},
          {"Div", 7, write_division},
          {"Pow", 7, write_power},
          {"Mod", 10, write_mod},
          {"Min", 8, write_many},
          {"Max", 8, write_many},
          {"Sum", 8, write_many},
          {"Mean", 8, write_many},
          {"Equal", 7, write_comparison},
          {"Less", 9, write_comparison},
          {"Greater", 9, write_comparison},
          {"LessOrEqual", 12, write_comparison},
          {"GreaterOrEqual", 12, write_comparison},
          {"And", 7, write_logic},
          {"Or", 7, write_logic},
          {"Xor", 7, write_logic},
          {"Where", 9, write_where}};
}

}  // namespace detent
