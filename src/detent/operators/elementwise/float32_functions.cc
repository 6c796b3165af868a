#include <algorithm>
#include <cmath>

#include "detent/core/element_types.h"
#include "detent/core/parallel.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/functions.h"
#include "detent/core/pair_functions.h"
#include "detent/kernels/tensor_layout.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

using Kind = ElementFunction::Kind;

using Rows = std::optional<RowFunction>;

/// Operations that IEEE 754 defines, on each element.
template <class Function>
Rows mapped(Function function) {
  return RowFunction{1, [function](std::span<const float> values, std::span<float> results) {
                       constexpr int64_t kGrain = 16384;
                       parallel_for(std::ssize(values), kGrain, [&](int64_t begin, int64_t end) {
                         for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
                           results[i] = function(values[i]);
                       });
                     }};
}

Rows applied(const ElementFunction& function) {
  return RowFunction{1, [function](std::span<const float> values, std::span<float> results) {
                       apply_function(function, values, results);
                     }};
}

template <Kind kKind>
Rows function_of(const FloatNode& /*node*/, const Shape& /*input*/) {
  return applied({kKind});
}

template <float (*Function)(float)>
Rows exact(const FloatNode& /*node*/, const Shape& /*input*/) {
  return mapped([](float x) { return Function(x); });
}

float number(const FloatNode& n, const char* name) {
  return static_cast<float>(number_attribute(n.node, name));
}

/// NaN stays NaN.
float cut(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

Rows clamped_rows(const FloatNode& n, const Shape& /*input*/) {
  const Clamp& clamp = *clamp_of(n.node);
  const auto low = static_cast<float>(clamp.low);
  const auto high = static_cast<float>(clamp.high);
  return mapped([=](float x) { return cut(x, low, high); });
}

Rows gelu(const FloatNode& n, const Shape& /*input*/) {
  const bool is_exact = choice_attribute(n.node, "approximate") == "none";
  return applied({is_exact ? Kind::kGelu : Kind::kGeluTanh});
}

Rows softplus(const FloatNode& n, const Shape& /*input*/) {
  return applied({Kind::kSoftplus, number_attribute(n.node, "beta"), number_attribute(n.node, "threshold")});
}

Rows selu(const FloatNode& /*node*/, const Shape& /*input*/) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return applied({Kind::kElu, kScale, kScale * kAlpha});
}

Rows elu(const FloatNode& n, const Shape& /*input*/) {
  return applied({Kind::kElu, 1, number_attribute(n.node, "alpha")});
}

Rows celu(const FloatNode& n, const Shape& /*input*/) {
  const double alpha = number_attribute(n.node, "alpha");
  return applied({Kind::kElu, 1, alpha, 1 / alpha});
}

Rows leaky_relu(const FloatNode& n, const Shape& /*input*/) {
  return mapped([slope = number(n, "negative_slope")](float x) { return selected(x > 0, x, x * slope); });
}

Rows hardsigmoid(const FloatNode& n, const Shape& /*input*/) {
  return mapped([alpha = number(n, "alpha"), beta = number(n, "beta")](float x) {
    return cut(x * alpha + beta, 0, 1);
  });
}

Rows thresholded_relu(const FloatNode& n, const Shape& /*input*/) {
  return mapped([alpha = number(n, "alpha")](float x) { return x > alpha ? x : 0; });
}

Rows hardswish(const FloatNode& /*node*/, const Shape& /*input*/) { return RowFunction{1, apply_hardswish}; }

float softsign(float x) { return x / (std::fabs(x) + 1); }
float absolute(float x) { return std::fabs(x); }
float negative(float x) { return -x; }
float sign(float x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : x == 0 ? 0.0F : x; }
float root(float x) { return std::sqrt(x); }
float reciprocal(float x) { return 1 / x; }
float lower(float x) { return std::floor(x); }
float upper(float x) { return std::ceil(x); }
float nearest_even(float x) { return std::nearbyint(x); }

/// Floats are computed by rows; integers one by one, and wrap.
template <class OfInteger>
Tensor of_any_number(const FloatNode& n) {
  const Tensor x = n.operand(0);
  if (is_floating_point(x.dtype())) return computed_by_rows(n);
  Tensor result(x.dtype(), x.shape());
  visit_numbers(x.dtype(), [&]<class T>(T) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      std::ranges::transform(x.values<T>(), result.values<T>().begin(), OfInteger::template of<T>);
  });
  return result;
}

struct Negative {
  template <class T>
  static T of(T x) {
    return Difference::of(T(), x);
  }
};
struct Magnitude {
  template <class T>
  static T of(T x) {
    return x < 0 ? Negative::of(x) : x;
  }
};
struct Sign {
  template <class T>
  static T of(T x) {
    return static_cast<T>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0));
  }
};

}  // namespace

FloatOperators float_element_operators() {
  constexpr bool kExact = true;
  const auto entry = [](std::string_view op, Rows (*rows)(const FloatNode&, const Shape&),
                        bool is_exact = false) {
    return FloatOperator{op, computed_by_rows, is_exact, rows};
  };
  return {entry("exp", function_of<Kind::kExp>),
          entry("log", function_of<Kind::kLog>),
          entry("erf", function_of<Kind::kErf>),
          entry("tanh", function_of<Kind::kTanh>),
          entry("sigmoid", function_of<Kind::kSigmoid>),
          entry("silu", function_of<Kind::kSilu>),
          entry("mish", function_of<Kind::kMish>),
          entry("sin", function_of<Kind::kSin>),
          entry("cos", function_of<Kind::kCos>),
          entry("tan", function_of<Kind::kTan>),
          entry("asin", function_of<Kind::kAsin>),
          entry("acos", function_of<Kind::kAcos>),
          entry("atan", function_of<Kind::kAtan>),
          entry("sinh", function_of<Kind::kSinh>),
          entry("cosh", function_of<Kind::kCosh>),
          entry("asinh", function_of<Kind::kAsinh>),
          entry("acosh", function_of<Kind::kAcosh>),
          entry("atanh", function_of<Kind::kAtanh>),
          entry("gelu", gelu),
          entry("softplus", softplus),
          entry("selu", selu),
          entry("elu", elu),
          entry("celu", celu),
          entry("relu", clamped_rows, kExact),
          entry("relu6", clamped_rows, kExact),
          entry("leaky_relu", leaky_relu, kExact),
          entry("hardsigmoid", hardsigmoid, kExact),
          entry("hardswish", hardswish, kExact),
          entry("thresholded_relu", thresholded_relu, kExact),
          entry("softsign", exact<softsign>, kExact),
          {"abs", of_any_number<Magnitude>, kExact, exact<absolute>},
          {"neg", of_any_number<Negative>, kExact, exact<negative>},
          {"sign", of_any_number<Sign>, kExact, exact<sign>},
          entry("sqrt", exact<root>, kExact),
          entry("reciprocal", exact<reciprocal>, kExact),
          entry("floor", exact<lower>, kExact),
          entry("ceil", exact<upper>, kExact),
          entry("round", exact<nearest_even>, kExact)};
}

}  // namespace detent
