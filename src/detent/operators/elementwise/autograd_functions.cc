#include <ATen/ops/abs.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/atanh.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/log.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/round.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/where.h>

#include "detent/operators/autograd.h"

namespace detent {
namespace {

template <at::Tensor (*Function)(const at::Tensor&)>
Results evaluate(const Evaluation& e) {
  return Function(e.tensor(0));
}

/// libtorch's sign of NaN is 0.
Results evaluate_sign(const Evaluation& e) {
  const at::Tensor x = e.tensor(0);
  const at::Tensor sign = at::sign(x);
  return x.is_floating_point() ? at::where(x != x, x, sign) : sign;
}

}  // namespace

EvaluatorList math_evaluators() {
  return {
      {"abs", evaluate<at::abs>},     {"neg", evaluate<at::neg>},
      {"sign", evaluate_sign},        {"exp", evaluate<at::exp>},
      {"log", evaluate<at::log>},     {"sqrt", evaluate<at::sqrt>},
      {"floor", evaluate<at::floor>}, {"reciprocal", evaluate<at::reciprocal>},
      {"ceil", evaluate<at::ceil>},   {"round", evaluate<at::round>},
      {"erf", evaluate<at::erf>},     {"sin", evaluate<at::sin>},
      {"cos", evaluate<at::cos>},     {"tan", evaluate<at::tan>},
      {"asin", evaluate<at::asin>},   {"acos", evaluate<at::acos>},
      {"atan", evaluate<at::atan>},   {"sinh", evaluate<at::sinh>},
      {"cosh", evaluate<at::cosh>},   {"asinh", evaluate<at::asinh>},
      {"acosh", evaluate<at::acosh>}, {"atanh", evaluate<at::atanh>},
  };
}

}  // namespace detent
