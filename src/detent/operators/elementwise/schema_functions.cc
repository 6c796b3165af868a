#include "detent/operators/elementwise/schema_functions.h"

#include <algorithm>
#include <cmath>

#include "detent/core/pair_functions.h"
#include "detent/graph/known_elements.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

using FunctionKind = ElementFunction::Kind;

constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;

double sign_of(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Opposite {
  template <class T>
  static T of(T x) {
    return Difference::of(T(), x);
  }
};

struct Magnitude {
  template <class T>
  static T of(T x) {
    return x < 0 ? Opposite::of(x) : x;
  }
};

struct Sign {
  template <class T>
  static T of(T x) {
    return static_cast<T>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0));
  }
};

template <class Function>
Tensor of_integers(const Tensor& x) {
  return visit_numbers(x.dtype(), [&]<class T>(T) {
    Tensor result(x.dtype(), x.shape());
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      std::ranges::transform(x.values<T>(), result.values<T>().begin(), Function::template of<T>);
    return result;
  });
}

const FunctionRow kFunctions[] = {
    {"abs", "|x|", std::fabs, {FunctionKind::kAbs}, "Abs", of_integers<Magnitude>},
    {"neg", "-x", [](double x) { return -x; }, {FunctionKind::kNegative}, "Neg", of_integers<Opposite>},
    {"sign", "-1, 0 or 1", sign_of, {FunctionKind::kSign}, "Sign", of_integers<Sign>},
    {"exp", "e^x", std::exp, {FunctionKind::kExp}, "Exp"},
    {"log", "natural logarithm", std::log, {FunctionKind::kLog}, "Log"},
    {"sqrt", "square root", std::sqrt, {FunctionKind::kSqrt}, "Sqrt"},
    {"reciprocal", "1 / x", [](double x) { return 1 / x; }, {FunctionKind::kReciprocal}, "Reciprocal"},
    {"floor", "largest integer that is not above x", std::floor, {FunctionKind::kFloor}, "Floor"},
    {"ceil", "smallest integer that is not below x", std::ceil, {FunctionKind::kCeil}, "Ceil"},
    {"round", "nearest integer, of two the even one", std::nearbyint, {FunctionKind::kRound}, "Round"},
    {"erf",
     "error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x",
     std::erf,
     {FunctionKind::kErf},
     "Erf"},
    {"sin", "sine", std::sin, {FunctionKind::kSin}, "Sin"},
    {"cos", "cosine", std::cos, {FunctionKind::kCos}, "Cos"},
    {"tan", "tangent", std::tan, {FunctionKind::kTan}, "Tan"},
    {"asin", "arc sine", std::asin, {FunctionKind::kAsin}, "Asin"},
    {"acos", "arc cosine", std::acos, {FunctionKind::kAcos}, "Acos"},
    {"atan", "arc tangent", std::atan, {FunctionKind::kAtan}, "Atan"},
    {"sinh", "hyperbolic sine", std::sinh, {FunctionKind::kSinh}, "Sinh"},
    {"cosh", "hyperbolic cosine", std::cosh, {FunctionKind::kCosh}, "Cosh"},
    {"tanh", "hyperbolic tangent", std::tanh, {FunctionKind::kTanh}, "Tanh"},
    {"asinh", "inverse of sinh", std::asinh, {FunctionKind::kAsinh}, "Asinh"},
    {"acosh", "inverse of cosh", std::acosh, {FunctionKind::kAcosh}, "Acosh"},
    {"atanh", "inverse of tanh", std::atanh, {FunctionKind::kAtanh}, "Atanh"},
    {"sigmoid", "1 / (1 + exp(-x))", sigmoid, {FunctionKind::kSigmoid}, "Sigmoid"},
    {"silu", "x * sigmoid(x)", [](double x) { return x * sigmoid(x); }, {FunctionKind::kSilu}},
    {"selu",
     "1.0507 x, or 1.7581 (exp(x) - 1) below 0 (Klambauer et al. 2017, arXiv:1706.02515)",
     [](double x) { return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x)); },
     {FunctionKind::kElu, kSeluScale, kSeluScale* kSeluAlpha}},
    {"mish",
     "x tanh(log(1 + exp(x))) (Misra 2019, arXiv:1908.08681)",
     [](double x) { return x * std::tanh(x > 30 ? x : std::log1p(std::exp(x))); },
     {FunctionKind::kMish}},
    {"hardswish",
     "x * min(max(x + 3, 0), 6) / 6 (Howard et al. 2019, arXiv:1905.02244)",
     [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; },
     {FunctionKind::kHardswish}},
    {"softsign",
     "x / (1 + |x|)",
     [](double x) { return x / (1 + std::fabs(x)); },
     {FunctionKind::kSoftsign},
     "Softsign"},
};

std::optional<Tensor> elements_of(const Node& node, std::span<const Operand> inputs, const Operand& result) {
  if (!inputs[0].elements) return std::nullopt;
  if (is_floating_point(result.dtype)) return unary_elements(node, *inputs[0].elements);
  return find_element_function(node.op)->of_integers(*inputs[0].elements);
}

Operand infer_number(const Node& node, std::span<const Operand> inputs) {
  if (inputs[0].dtype == DType::kBool) fail("got a tensor of dtype bool, expected numbers");
  return same_shape(node, inputs);
}

}  // namespace

std::span<const FunctionRow> element_functions() { return kFunctions; }

const FunctionRow* find_element_function(std::string_view op) {
  const auto* found = std::ranges::find(kFunctions, op, &FunctionRow::op);
  return found == std::end(kFunctions) ? nullptr : found;
}

std::vector<OperatorSchema> function_operators() {
  std::vector<OperatorSchema> schemas;
  for (const FunctionRow& row : kFunctions) {
    OperatorSchema& schema = schemas.emplace_back(unary(row.op, row.help, Unary::Function(row.of)));
    if (row.of_integers == nullptr) continue;
    schema.elements = elements_of;
    schema.dtypes = DTypeRule::kKept;
    schema.infer = infer_number;
  }
  return schemas;
}

}  // namespace detent
