#include <algorithm>
#include <cmath>

#include "detent/core/parallel.h"
#include "detent/float32/float_node.h"
#include "detent/float32/functions.h"
#include "detent/float32/result_tensor.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

using Kind = ElementFunction::Kind;

/// Operations that IEEE 754 defines, on each element.
template <class Function>
Tensor mapped(const FloatNode& n, Function function) {
  constexpr int64_t kGrain = 16384;
  const Tensor& x = n.tensor(0);
  Tensor result = result_tensor(x.shape());
  const auto from = x.values<float>();
  const auto to = result.values<float>();
  parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) to[i] = function(from[i]);
  });
  return result;
}

Tensor applied(const FloatNode& n, const ElementFunction& function) {
  Tensor result = result_tensor(n.tensor(0).shape());
  apply_function(function, n.tensor(0).values<float>(), result.values<float>());
  return result;
}

template <Kind kKind>
Tensor function_of(const FloatNode& n) {
  return applied(n, {kKind});
}

template <float (*Function)(float)>
Tensor exact(const FloatNode& n) {
  return mapped(n, [](float x) { return Function(x); });
}

float number(const FloatNode& n, const char* name) {
  return static_cast<float>(number_attribute(n.node, name));
}

/// NaN stays NaN.
float cut(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

Tensor clamped(const FloatNode& n) {
  const Clamp& clamp = *clamp_of(n.node);
  const auto low = static_cast<float>(clamp.low);
  const auto high = static_cast<float>(clamp.high);
  return mapped(n, [=](float x) { return cut(x, low, high); });
}

Tensor gelu(const FloatNode& n) {
  const bool is_exact = choice_attribute(n.node, "approximate") == "none";
  return applied(n, {is_exact ? Kind::kGelu : Kind::kGeluTanh});
}

Tensor softplus(const FloatNode& n) {
  return applied(n,
                 {Kind::kSoftplus, number_attribute(n.node, "beta"), number_attribute(n.node, "threshold")});
}

Tensor selu(const FloatNode& n) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return applied(n, {Kind::kElu, kScale, kScale * kAlpha});
}

Tensor elu(const FloatNode& n) { return applied(n, {Kind::kElu, 1, number_attribute(n.node, "alpha")}); }

Tensor celu(const FloatNode& n) {
  const double alpha = number_attribute(n.node, "alpha");
  return applied(n, {Kind::kElu, 1, alpha, 1 / alpha});
}

Tensor leaky_relu(const FloatNode& n) {
  return mapped(n, [slope = number(n, "negative_slope")](float x) { return x > 0 ? x : x * slope; });
}

Tensor hardsigmoid(const FloatNode& n) {
  return mapped(n, [alpha = number(n, "alpha"), beta = number(n, "beta")](float x) {
    return cut(x * alpha + beta, 0, 1);
  });
}

Tensor thresholded_relu(const FloatNode& n) {
  return mapped(n, [alpha = number(n, "alpha")](float x) { return x <= alpha ? 0 : x; });
}

float hardswish(float x) { return x * cut(x + 3, 0, 6) / 6; }
float softsign(float x) { return x / (std::fabs(x) + 1); }
float absolute(float x) { return std::fabs(x); }
float negative(float x) { return -x; }
float sign(float x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F; }
float root(float x) { return std::sqrt(x); }
float reciprocal(float x) { return 1 / x; }
float lower(float x) { return std::floor(x); }
float upper(float x) { return std::ceil(x); }
float nearest(float x) { return std::nearbyint(x); }

}  // namespace

FloatOperators float_element_operators() {
  return {{"exp", function_of<Kind::kExp>},
          {"log", function_of<Kind::kLog>},
          {"erf", function_of<Kind::kErf>},
          {"tanh", function_of<Kind::kTanh>},
          {"sigmoid", function_of<Kind::kSigmoid>},
          {"silu", function_of<Kind::kSilu>},
          {"mish", function_of<Kind::kMish>},
          {"gelu", gelu},
          {"softplus", softplus},
          {"selu", selu},
          {"elu", elu},
          {"celu", celu},
          {"relu", clamped, true},
          {"relu6", clamped, true},
          {"leaky_relu", leaky_relu, true},
          {"hardsigmoid", hardsigmoid, true},
          {"hardswish", exact<hardswish>, true},
          {"thresholded_relu", thresholded_relu, true},
          {"softsign", exact<softsign>, true},
          {"abs", exact<absolute>, true},
          {"neg", exact<negative>, true},
          {"sign", exact<sign>, true},
          {"sqrt", exact<root>, true},
          {"reciprocal", exact<reciprocal>, true},
          {"floor", exact<lower>, true},
          {"ceil", exact<upper>, true},
          {"round", exact<nearest>, true}};
}

}  // namespace detent
