#include <ATen/TensorOperators.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/le.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/logical_xor.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/where.h>

#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Results evaluate_pair(const Evaluation& e) {
  return Function(e.as_tensor(0), e.as_tensor(1));
}

/// Integers by -1 are divided by 1 instead, as the least one has no quotient that fits, and processors trap.
at::Tensor without_minus_one(const at::Tensor& divisor) {
  return at::where(divisor.eq(-1), at::ones({}, divisor.options()), divisor);
}

bool may_trap(const at::Tensor& divisor) { return at::isSignedType(divisor.scalar_type()); }

/// Quotients of integers have no fraction; what overflows wraps.
at::Tensor divide(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_floating_point()) return at::div(a, b);
  if (!may_trap(b)) return at::div(a, b, "trunc");
  return at::where(b.eq(-1), a.neg(), at::div(a, without_minus_one(b), "trunc"));
}

/// remainder or fmod: whatever -1 divides leaves nothing, as what 1 divides does.
template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
at::Tensor rest(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_floating_point() || !may_trap(b)) return Function(a, b);
  return Function(a, without_minus_one(b));
}

/// Integers with float exponents are computed in double, which rounds as the operands would.
at::Tensor power(const at::Tensor& base, const at::Tensor& exponent) {
  if (base.scalar_type() == exponent.scalar_type()) return at::pow(base, exponent);
  const bool floats = base.is_floating_point() && !exponent.is_floating_point();
  if (floats) return at::pow(base, exponent.to(base.scalar_type()));
  return converted(at::pow(base.to(at::kDouble), exponent.to(at::kDouble)), base.scalar_type());
}

Results evaluate_isinf(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  at::Tensor result = at::isinf(x);
  if (!boolean_attribute(e.node, "negative")) result = at::logical_and(result, at::gt(x, 0));
  if (!boolean_attribute(e.node, "positive")) result = at::logical_and(result, at::lt(x, 0));
  return result;
}

Results evaluate_prelu(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  return at::where(at::lt(x, 0), x * e.tensor(1), x);
}

}  // namespace

EvaluatorList elementwise_evaluators() {
  return {
      {"div", evaluate_pair<divide>},
      {"remainder", evaluate_pair<rest<at::remainder>>},
      {"fmod", evaluate_pair<rest<at::fmod>>},
      {"minimum", evaluate_pair<at::minimum>},
      {"maximum", evaluate_pair<at::maximum>},
      {"pow", evaluate_pair<power>},
      {"bitwise_and", evaluate_pair<at::bitwise_and>},
      {"bitwise_or", evaluate_pair<at::bitwise_or>},
      {"bitwise_xor", evaluate_pair<at::bitwise_xor>},
      {"eq", evaluate_pair<at::eq>},
      {"lt", evaluate_pair<at::lt>},
      {"le", evaluate_pair<at::le>},
      {"gt", evaluate_pair<at::gt>},
      {"ge", evaluate_pair<at::ge>},
      {"logical_and", evaluate_pair<at::logical_and>},
      {"logical_or", evaluate_pair<at::logical_or>},
      {"logical_xor", evaluate_pair<at::logical_xor>},
      {"logical_not", [](const Evaluation& e) -> Results { return at::logical_not(e.tensor(0)); }},
      {"isnan", [](const Evaluation& e) -> Results { return at::isnan(e.tensor(0)); }},
      {"isinf", evaluate_isinf},
      {"where",
       [](const Evaluation& e) -> Results { return at::where(e.tensor(0), e.as_tensor(1), e.as_tensor(2)); }},
      {"prelu", evaluate_prelu},
  };
}

}  // namespace detent
