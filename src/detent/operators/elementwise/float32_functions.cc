#include <algorithm>
#include <cmath>

#include "detent/core/element_types.h"
#include "detent/core/pair_functions.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/functions.h"
#include "detent/kernels/tensor_layout.h"
#include "detent/operators/elementwise/schema_functions.h"

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

Rows function_of(const FloatNode& n, const Shape& /*input*/) {
  return applied(find_element_function(n.node.op)->float32);
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

/// Floats are computed by rows; integers one by one.
Tensor of_any_number(const FloatNode& n) {
  const Tensor x = n.operand(0);
  return is_floating_point(x.dtype()) ? computed_by_rows(n)
                                      : find_element_function(n.node.op)->of_integers(x);
}

}  // namespace

FloatOperators float_element_operators() {
  constexpr bool kExact = true;
  const auto entry = [](std::string_view op, Rows (*rows)(const FloatNode&, const Shape&),
                        bool is_exact = false) {
    return FloatOperator{op, computed_by_rows, is_exact, rows};
  };
  FloatOperators operators = {entry("gelu", gelu),
                              entry("softplus", softplus),
                              entry("elu", elu),
                              entry("celu", celu),
                              entry("relu", clamped_rows, kExact),
                              entry("relu6", clamped_rows, kExact),
                              entry("leaky_relu", leaky_relu, kExact),
                              entry("hardsigmoid", hardsigmoid, kExact),
                              entry("thresholded_relu", thresholded_relu, kExact)};
  for (const FunctionRow& row : element_functions()) {
    const auto compute = row.of_integers != nullptr ? of_any_number : computed_by_rows;
    operators.push_back({row.op, compute, row.float32.is_exact(), function_of});
  }
  return operators;
}

}  // namespace detent
