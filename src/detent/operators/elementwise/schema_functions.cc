#include <cmath>

#include "detent/core/pair_functions.h"
#include "detent/graph/known_elements.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

struct Magnitude {
  template <class T>
  static T of(T x) {
    return x < 0 ? Difference::of(T(), x) : x;
  }
};

struct Opposite {
  template <class T>
  static T of(T x) {
    return Difference::of(T(), x);
  }
};

struct Sign {
  template <class T>
  static T of(T x) {
    return static_cast<T>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0));
  }
};

/// Integers stay in their own type; of floats the trait says it.
template <class Function>
std::optional<Tensor> elements_of(const Node& node, std::span<const Operand> inputs, const Operand& result) {
  if (!inputs[0].elements) return std::nullopt;
  if (is_floating_point(result.dtype)) return unary_elements(node, *inputs[0].elements);
  return visit_numbers(result.dtype, [&]<class T>(T) {
    Tensor elements(result.dtype, result.shape);
    if constexpr (!std::is_same_v<T, bool>) {
      const std::span<const T> from = std::as_const(*inputs[0].elements).template values<T>();
      std::ranges::transform(from, elements.values<T>().begin(), [](T x) { return Function::of(x); });
    }
    return elements;
  });
}

/// Takes integers too, whose results are integers.
template <class Function>
OperatorSchema of_any_number(OperatorSchema schema) {
  schema.elements = elements_of<Function>;
  schema.dtypes = DTypeRule::kKept;
  schema.infer = [](const Node& node, std::span<const Operand> inputs) {
    if (inputs[0].dtype == DType::kBool) fail("got a tensor of dtype bool, expected numbers");
    return same_shape(node, inputs);
  };
  return schema;
}

}  // namespace

std::vector<OperatorSchema> math_operators() {
  using Function = double (*)(double);
  const auto function = [](const char* name, const char* help, Function of) {
    return unary(name, help, Unary::Function(of));
  };
  return {
      of_any_number<Magnitude>(function("abs", "|x|", std::fabs)),
      of_any_number<Opposite>(function("neg", "-x", [](double x) { return -x; })),
      of_any_number<Sign>(
          function("sign", "-1, 0 or 1", [](double x) { return x > 0   ? 1.0
                                                               : x < 0 ? -1.0
                                                                       : x; })),
      function("exp", "e^x", std::exp),
      function("log", "natural logarithm", std::log),
      function("sqrt", "square root", std::sqrt),
      function("reciprocal", "1 / x", [](double x) { return 1 / x; }),
      function("floor", "largest integer that is not above x", std::floor),
      function("ceil", "smallest integer that is not below x", std::ceil),
      function("round", "nearest integer, of two the even one", std::nearbyint),
      function("erf", "error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x", std::erf),
      function("sin", "sine", std::sin),
      function("cos", "cosine", std::cos),
      function("tan", "tangent", std::tan),
      function("asin", "arc sine", std::asin),
      function("acos", "arc cosine", std::acos),
      function("atan", "arc tangent", std::atan),
      function("sinh", "hyperbolic sine", std::sinh),
      function("cosh", "hyperbolic cosine", std::cosh),
      function("asinh", "inverse of sinh", std::asinh),
      function("acosh", "inverse of cosh", std::acosh),
      function("atanh", "inverse of tanh", std::atanh),
  };
}

}  // namespace detent
