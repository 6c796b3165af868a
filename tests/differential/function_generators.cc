#include <cmath>
#include <map>

#include "case.h"
#include "detent/onnx/tensor_data.h"

namespace detent {
namespace {

constexpr double kAny = 0x1p40;

/// A function whose slope and bound follow from the largest magnitude that it is given.
struct Smooth {
  double most = kAny;  // magnitude of the operand
  double (*slope)(double) = [](double) { return 1.0; };
  double (*bound)(double) = [](double m) { return m; };
};

const std::map<std::string, Smooth>& smooth_functions() {
  constexpr auto kOne = [](double) { return 1.0; };
  constexpr auto kSame = [](double m) { return m; };
  static const std::map<std::string, Smooth> functions = {
      {"Exp", {8, [](double m) { return std::exp(m); }, [](double m) { return std::exp(m); }}},
      {"Sinh", {8, [](double m) { return std::cosh(m); }, [](double m) { return std::cosh(m); }}},
      {"Cosh", {8, [](double m) { return std::cosh(m); }, [](double m) { return std::cosh(m); }}},
      {"Sigmoid", {kAny, kOne, kOne}},
      {"Tanh", {kAny, kOne, kOne}},
      {"Erf", {kAny, [](double) { return 1.2; }, kOne}},
      {"Sin", {100, kOne, kOne}},
      {"Cos", {100, kOne, kOne}},
      {"Atan", {kAny, kOne, [](double) { return 1.6; }}},
      {"Asinh", {kAny, kOne, kSame}},
      {"Softplus", {kAny, kOne, [](double m) { return m + 1; }}},
      {"Softsign", {kAny, kOne, kOne}},
      {"Mish", {kAny, [](double) { return 1.2; }, kSame}},
      {"HardSwish", {1e4, [](double) { return 1.5; }, kSame}},
  };
  return functions;
}

std::vector<DType> floats(const GraphWriter& writer) { return {writer.real}; }

void write_smooth(GraphWriter& writer, const std::string& op) {
  const Smooth& function = smooth_functions().at(op);
  const GeneratedValue x =
      writer.operand({.dtypes = floats(writer), .may_be_wild = true, .most_magnitude = function.most});
  const double most = x.numbers.magnitude;
  writer.node(op, {x}, {},
              {x.dtype, x.shape, function_of(x.numbers, function.slope(most), function.bound(most))});
}

/// Functions with poles or ends: of numbers that are exact, where these lie within, or else wild.
void write_steep(GraphWriter& writer, const std::string& op) {
  const bool is_wild = writer.random.chance(0.3);
  const bool takes_unit = op == "Asin" || op == "Acos" || op == "Atanh";
  const Content content = takes_unit ? Content::kUnit : Content::kPositive;
  const GeneratedValue x = writer.operand({.dtypes = floats(writer),
                                           .content = is_wild ? Content::kSmall : content,
                                           .may_be_wild = is_wild,
                                           .must_be_exact = true,
                                           .most_magnitude = takes_unit && !is_wild ? 1.0 : kAny});
  Numbers numbers = function_of(x.numbers, 0, 64);
  const bool is_inside = x.numbers.is_positive && op != "Acosh";
  const bool is_unit = x.numbers.magnitude <= 1 && (op == "Asin" || op == "Acos");
  numbers.is_wild = !is_inside && !is_unit;
  if (numbers.is_wild) numbers.magnitude = 0x1p20;
  writer.node(op, {x}, {}, {x.dtype, x.shape, numbers});
}

/// Signs and magnitudes of what is given.
void write_exact(GraphWriter& writer, const std::string& op) {
  std::vector<DType> dtypes = floats(writer);
  if (op != "Relu" && writer.random.chance(0.3)) dtypes = {DType::kInt32, DType::kInt64, DType::kInt8};
  const bool jumps = op == "Sign";
  const GeneratedValue x = writer.operand({.dtypes = dtypes, .may_be_wild = true, .must_be_exact = jumps});
  Numbers numbers = x.numbers;
  numbers.is_positive = op == "Abs" && numbers.is_positive;
  if (jumps) numbers = {.magnitude = 1, .step = 1, .is_wild = numbers.is_wild};
  writer.node(op, {x}, {}, {x.dtype, x.shape, numbers});
}

void write_rounding(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x =
      writer.operand({.dtypes = floats(writer), .may_be_wild = true, .must_be_exact = true});
  Numbers numbers = x.numbers;
  numbers.step = 1;
  numbers.magnitude += 1;
  numbers.is_positive = false;
  writer.node(op, {x}, {}, {x.dtype, x.shape, numbers});
}

void write_not(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand({.dtypes = {DType::kBool}});
  writer.node(op, {x}, {}, {DType::kBool, x.shape});
}

void write_question(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand({.dtypes = floats(writer), .may_be_wild = true, .is_new = 0.5});
  std::vector<OnnxAttribute> attributes;
  if (op == "IsInf" && writer.random.chance(0.5))
    attributes.emplace_back("detect_negative", writer.random.between(0, 1));
  if (op == "IsInf" && writer.random.chance(0.5))
    attributes.emplace_back("detect_positive", writer.random.between(0, 1));
  writer.node(op, {x}, attributes, {DType::kBool, x.shape});
}

/// One or two numbers as attributes; every slope is at most 2.
void write_with_numbers(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const bool jumps = op == "ThresholdedRelu" || op == "Shrink";
  // Steps make numbers of NaN: that of a maximum, which ONNX Runtime may drop, could not be told apart.
  const GeneratedValue x =
      writer.operand({.dtypes = floats(writer), .may_be_wild = !jumps, .must_be_exact = jumps});
  std::vector<OnnxAttribute> attributes;
  const auto number = [&](const char* name, std::initializer_list<float> choices) {
    if (random.chance(0.6)) attributes.emplace_back(name, random.of(choices));
  };
  if (op == "LeakyRelu") number("alpha", {0.0F, 0.25F, 1.0F, -0.5F, 2.0F});
  if (op == "Elu") number("alpha", {0.0F, 0.5F, 1.0F, 2.0F});
  if (op == "Celu") number("alpha", {0.5F, 1.0F, 2.0F});
  if (op == "Selu") number("alpha", {1.0F, 1.5F});
  if (op == "Selu") number("gamma", {1.0F, 1.25F});
  if (op == "HardSigmoid") number("alpha", {0.5F, 1.0F, 0.2F});
  if (op == "HardSigmoid") number("beta", {0.0F, 0.25F, -0.5F});
  if (op == "ThresholdedRelu") number("alpha", {0.0F, 1.0F, 0.5F, -1.0F});
  if (op == "Shrink") number("lambd", {0.0F, 0.5F, 1.5F});
  if (op == "Shrink") number("bias", {0.0F, 0.5F, -1.0F});
  if (op == "Gelu" && random.chance(0.6)) attributes.emplace_back("approximate", random.of({"none", "tanh"}));
  const double bound = 2 * x.numbers.magnitude + 4;
  Numbers numbers = jumps ? x.numbers : function_of(x.numbers, 2, bound);
  numbers.magnitude = bound;
  numbers.is_positive = false;
  if (jumps) numbers.step = std::min(numbers.step, 0.125);
  writer.node(op, {x}, attributes, {x.dtype, x.shape, numbers});
}

void write_prelu(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand({.dtypes = floats(writer), .most_magnitude = 0x1p20});
  Shape shape = x.shape;
  for (int64_t& size : shape) {
    if (writer.random.chance(0.5)) size = 1;
  }
  if (!shape.empty() && writer.random.chance(0.3)) shape.erase(shape.begin());
  const GeneratedValue slope = writer.source(writer.real, shape);
  writer.node(op, {x, slope}, {}, {x.dtype, x.shape, either(x.numbers, product(x.numbers, slope.numbers))});
}

void write_clip(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  std::vector<DType> dtypes = floats(writer);
  if (writer.is_at_least(12) && random.chance(0.3))
    dtypes = {DType::kInt32, DType::kInt64, DType::kInt8, DType::kUInt8};
  const GeneratedValue x = writer.operand({.dtypes = dtypes, .may_be_wild = true});
  Numbers numbers = x.numbers;
  numbers.is_positive = false;
  numbers.step = std::min(numbers.step, x.is_float() ? 0.125 : 1.0);
  numbers.magnitude = std::max(numbers.magnitude, 8.0);
  if (!writer.is_at_least(11)) {
    std::vector<OnnxAttribute> attributes;
    if (random.chance(0.7)) attributes.emplace_back("min", random.of({-1.0F, 0.0F, 0.5F, -3e38F}));
    if (random.chance(0.7)) attributes.emplace_back("max", random.of({1.0F, 6.0F, 0.5F, 3e38F}));
    writer.node(op, {x}, attributes, {x.dtype, x.shape, numbers});
    return;
  }
  const auto bound = [&](std::vector<int64_t> choices) {
    return random.chance(0.7) ? writer.scalar(random.of(choices), x.dtype) : GraphWriter::absent();
  };
  const GeneratedValue low = bound({0, 1, 2, 0, x.dtype == DType::kUInt8 ? 3 : -3});
  const GeneratedValue high = bound({3, 6, 4, 6, 3});
  writer.node(op, {x, low, high}, {}, {x.dtype, x.shape, numbers});
}

void write_softmax(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand({.dtypes = floats(writer), .least_rank = 1, .most_magnitude = 1e4});
  std::vector<OnnxAttribute> attributes;
  if (writer.random.chance(0.8)) attributes.emplace_back("axis", writer.axis(x.rank()));
  if (!writer.is_at_least(13) && attributes.empty() && x.rank() == 1) attributes.emplace_back("axis", 0);
  const double bound = op == "Softmax" ? 1 : 2 * x.numbers.magnitude + 8;
  writer.node(op, {x}, attributes, {x.dtype, x.shape, function_of(x.numbers, 2, bound)});
}

void write_hardmax(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand({.dtypes = floats(writer), .least_rank = 1, .must_be_exact = true});
  std::vector<OnnxAttribute> attributes;
  if (writer.random.chance(0.8)) attributes.emplace_back("axis", writer.axis(x.rank()));
  if (!writer.is_at_least(13) && attributes.empty() && x.rank() == 1) attributes.emplace_back("axis", 0);
  writer.node(op, {x}, attributes, {x.dtype, x.shape});
}

/// From floats to integers cuts.
void write_cast(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  std::vector<DType> dtypes = {DType::kInt64, DType::kInt32, DType::kBool,
                               DType::kUInt8, DType::kInt8,  DType::kInt16};
  dtypes.insert(dtypes.end(), writer.reals().begin(), writer.reals().end());
  if (writer.reals().size() == 1) dtypes.push_back(writer.reals()[0]);
  const DType to = random.of(dtypes);
  const GeneratedValue x =
      writer.operand({.dtypes = dtypes,
                      .may_be_wild = !is_floating_point(to) && random.chance(0.3),
                      .must_be_exact = !is_floating_point(to),
                      .most_magnitude = to == DType::kFloat16 ? GraphWriter::kMostOfHalf : kAny});
  // A number that no integer of the type holds becomes what the processor gives.
  const bool is_defined = is_floating_point(to) || to == DType::kBool || !x.is_float() ||
                          (!x.numbers.is_wild && x.numbers.magnitude < 100 && to != DType::kUInt8);
  const GeneratedValue from = is_defined ? x : writer.source(x.dtype, x.shape, Content::kPositive);
  Numbers numbers = from.numbers;
  if (to == DType::kBool) numbers = {1, 1};
  if (!is_floating_point(to)) numbers.step = 1;
  numbers.is_positive = numbers.is_positive && from.numbers.step >= 1;
  if (!from.is_float() && from.numbers.is_wild && is_floating_point(to))
    numbers = {0x1p63, 0, 0x1p40, false, true};
  if (op == "Cast") {
    writer.node(op, {from}, {{"to", onnx_element_type(to)}}, {to, from.shape, numbers});
    return;
  }
  const GeneratedValue like = writer.operand({.dtypes = {to}});
  writer.node(op, {from, like}, {}, {to, from.shape, numbers});
}

/// To a short float and back, which rounds, of numbers of any size.
void write_short(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const DType to = writer.is_at_least(13) ? random.of({DType::kFloat16, DType::kBFloat16}) : DType::kFloat16;
  const GeneratedValue x = writer.operand({.dtypes = {DType::kFloat32, DType::kInt32, DType::kInt64},
                                           .may_be_wild = true,
                                           .must_be_exact = true,
                                           .is_new = 0.5});
  Numbers numbers = x.numbers;
  numbers.step = 0;
  numbers.is_positive = false;
  const Result rounded = {to, x.shape, numbers, true, true};
  const GeneratedValue shorter = writer.node("Cast", {x}, {{"to", onnx_element_type(to)}}, rounded);
  const DType back = random.of({DType::kFloat32, x.dtype == DType::kFloat32 ? x.dtype : DType::kFloat64});
  writer.node(op, {shorter}, {{"to", onnx_element_type(back)}}, {back, x.shape, numbers});
}

}  // namespace

std::vector<OperatorGenerator> function_generators() {
  return {{"Abs", 7, write_exact},
          {"Neg", 7, write_exact},
          {"Relu", 7, write_exact},
          {"Sign", 9, write_exact},
          {"Exp", 7, write_smooth},
          {"Sinh", 9, write_smooth},
          {"Cosh", 9, write_smooth},
          {"Sigmoid", 7, write_smooth},
          {"Tanh", 7, write_smooth},
          {"Erf", 9, write_smooth},
          {"Sin", 7, write_smooth},
          {"Cos", 7, write_smooth},
          {"Atan", 7, write_smooth},
          {"Asinh", 9, write_smooth},
          {"Softplus", 7, write_smooth},
          {"Softsign", 7, write_smooth},
          {"Mish", 18, write_smooth},
          {"HardSwish", 14, write_smooth},
          {"Log", 7, write_steep},
          {"Sqrt", 7, write_steep},
          {"Reciprocal", 7, write_steep},
          {"Tan", 7, write_steep},
          {"Asin", 7, write_steep},
          {"Acos", 7, write_steep},
          {"Acosh", 9, write_steep},
          {"Atanh", 9, write_steep},
          {"Floor", 7, write_rounding},
          {"Ceil", 7, write_rounding},
          {"Round", 11, write_rounding},
          {"Not", 7, write_not},
          {"IsNaN", 9, write_question},
          {"IsInf", 10, write_question},
          {"LeakyRelu", 7, write_with_numbers},
          {"Elu", 7, write_with_numbers},
          {"Celu", 12, write_with_numbers},
          {"Selu", 7, write_with_numbers},
          {"HardSigmoid", 7, write_with_numbers},
          {"ThresholdedRelu", 10, write_with_numbers},
          {"Shrink", 9, write_with_numbers},
          {"Gelu", 20, write_with_numbers},
          {"PRelu", 7, write_prelu},
          {"Clip", 7, write_clip},
          {"Softmax", 7, write_softmax},
          {"LogSoftmax", 7, write_softmax},
          {"Hardmax", 7, write_hardmax},
          {"Cast", 7, write_cast},
          {"Cast", 7, write_short},
          {"CastLike", 15, write_cast}};
}

}  // namespace detent
