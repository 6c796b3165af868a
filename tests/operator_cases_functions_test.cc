#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/atanh.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/le.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>
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
#include <ATen/ops/mish.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/round.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>

#include "operator_cases_test.h"

namespace detent {
namespace {

using Inputs = std::vector<at::Tensor>;
using Lookup = OperatorCase::Lookup;

template <at::Tensor (*Function)(const at::Tensor&)>
at::Tensor unary(const Inputs& x, const Lookup&) {
  return Function(x[0]);
}

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
at::Tensor pair(const Inputs& x, const Lookup&) {
  return Function(x[0], x[1]);
}

OperatorCase of_numbers(const char* op, OperatorCase::Reference reference) {
  return {.op = op, .inputs = {{3, 4}}, .reference = std::move(reference)};
}

OperatorCase in_steps(const char* op, OperatorCase::Reference reference) {
  return {.op = op,
          .inputs = {CaseInput({3, 4}).between(-3, 3)},
          .reference = std::move(reference),
          .gradient = CaseGradient::kSteps};
}

/// A case for a function that is not defined, or not finite, everywhere.
OperatorCase between(double low, double high, const char* op, OperatorCase::Reference reference) {
  return {.op = op,
          .inputs = {CaseInput({3, 4}).between(low, high)},
          .reference = std::move(reference),
          .is_total = false};
}

std::vector<OperatorCase> activation_cases() {
  const Shape shape = {3, 4};
  return {
      {"add", {{3, 4}, {1, 4}}, {}, {}, [](const Inputs& x, const Lookup&) { return x[0] + x[1]; }},
      {"sub", {{3, 4}, {1, 4}}, {}, {}, [](const Inputs& x, const Lookup&) { return x[0] - x[1]; }},
      {"mul", {{3, 4}, {1, 4}}, {}, {}, [](const Inputs& x, const Lookup&) { return x[0] * x[1]; }},
      {"clamp",
       {shape, shape, shape},
       {},
       {},
       [](const Inputs& x, const Lookup&) { return x[0].maximum(x[1]).minimum(x[2]); }},
      {"relu", {shape}, {}, {}, unary<at::relu>},
      {"relu6",
       {shape},
       {},
       {},
       [](const Inputs& x, const Lookup&) { return x[0].relu().minimum(at::scalar_tensor(6)); }},
      {"selu", {shape}, {}, {}, unary<at::selu>},
      {"tanh", {shape}, {}, {}, unary<at::tanh>},
      {"sigmoid", {shape}, {}, {}, unary<at::sigmoid>},
      {"silu", {shape}, {}, {}, unary<at::silu>},
      {"hardswish", {shape}, {}, {}, unary<at::hardswish>},
      {"softsign", {shape}, {}, {}, [](const Inputs& x, const Lookup&) { return x[0] / (1 + x[0].abs()); }},
      {"gelu", {shape}, {}, {}, [](const Inputs& x, const Lookup&) { return at::gelu(x[0]); }},
      {"gelu",
       {shape},
       {},
       {{"approximate", "tanh"}},
       [](const Inputs& x, const Lookup&) { return at::gelu(x[0], "tanh"); }},
      {"softplus", {shape}, {}, {}, [](const Inputs& x, const Lookup&) { return at::softplus(x[0]); }},
      {"softplus",
       {shape},
       {},
       {{"beta", 2.5}, {"threshold", 1}},
       [](const Inputs& x, const Lookup&) { return at::softplus(x[0], 2.5, 1); }},
      {"softmax",
       {shape},
       {},
       {{"dim", 1}},
       [](const Inputs& x, const Lookup&) { return at::softmax(x[0], 1); }},
      {"log_softmax",
       {shape},
       {},
       {{"dim", 1}},
       [](const Inputs& x, const Lookup&) { return at::log_softmax(x[0], 1); }},
      {"leaky_relu",
       {shape},
       {},
       {{"negative_slope", 0.25}},
       [](const Inputs& x, const Lookup&) { return at::leaky_relu(x[0], 0.25); }},
      {"elu",
       {shape},
       {},
       {{"alpha", 0.5}},
       [](const Inputs& x, const Lookup&) { return at::elu(x[0], 0.5); }},
      {"celu",
       {shape},
       {},
       {{"alpha", 0.5}},
       [](const Inputs& x, const Lookup&) { return at::celu(x[0], 0.5); }},
      {"hardsigmoid", {shape}, {}, {}, unary<at::hardsigmoid>},
      {"hardsigmoid",
       {shape},
       {},
       {{"alpha", 0.25}, {"beta", 0.75}},
       [](const Inputs& x, const Lookup&) { return (x[0] * 0.25 + 0.75).clamp(0, 1); }},
      {"thresholded_relu",
       {shape},
       {},
       {{"alpha", 0.0}},
       [](const Inputs& x, const Lookup&) { return x[0].relu(); }},
      {"mish", {shape}, {}, {}, unary<at::mish>},
  };
}

std::vector<OperatorCase> math_cases() {
  return {
      of_numbers("abs", unary<at::abs>),
      of_numbers("neg", unary<at::neg>),
      of_numbers("exp", unary<at::exp>),
      of_numbers("erf", unary<at::erf>),
      of_numbers("sin", unary<at::sin>),
      of_numbers("cos", unary<at::cos>),
      of_numbers("atan", unary<at::atan>),
      of_numbers("asinh", unary<at::asinh>),
      of_numbers("sinh", unary<at::sinh>),
      of_numbers("cosh", unary<at::cosh>),
      in_steps("sign", unary<at::sign>),
      in_steps("floor", unary<at::floor>),
      in_steps("ceil", unary<at::ceil>),
      in_steps("round", unary<at::round>),
      between(0.5, 2, "log", unary<at::log>),
      between(0.5, 2, "sqrt", unary<at::sqrt>),
      between(0.5, 2, "reciprocal", unary<at::reciprocal>),
      between(-1, 1, "tan", unary<at::tan>),
      between(-0.9, 0.9, "asin", unary<at::asin>),
      between(-0.9, 0.9, "acos", unary<at::acos>),
      between(1.5, 3, "acosh", unary<at::acosh>),
      between(-0.9, 0.9, "atanh", unary<at::atanh>),
  };
}

std::vector<OperatorCase> pair_cases() {
  const CaseInput shape = {3, 4};
  const CaseInput row = {1, 4};
  const CaseInput divisor = row.between(0.5, 2);
  const CaseInput whole = CaseInput({3, 4}).of(DType::kInt64, -9, 9);
  const CaseInput whole_divisor = CaseInput({3, 4}).of(DType::kInt64, 1, 5);
  std::vector<OperatorCase> cases = {
      {"div", {shape, divisor}, {}, {}, [](const Inputs& x, const Lookup&) { return x[0] / x[1]; }},
      {"pow",
       {shape.between(0.5, 2), row},
       {},
       {},
       [](const Inputs& x, const Lookup&) { return at::pow(x[0], x[1]); }},
      {"minimum", {shape, row}, {}, {}, pair<at::minimum>},
      {"maximum", {shape, row}, {}, {}, pair<at::maximum>},
      {"prelu",
       {shape, row},
       {},
       {},
       [](const Inputs& x, const Lookup&) { return x[0].relu() - (-x[0]).relu() * x[1]; }},
      {"remainder", {shape, divisor}, {}, {}, pair<at::remainder>},
      {"fmod", {shape, divisor}, {}, {}, pair<at::fmod>},
      {"div",
       {whole, whole_divisor},
       {},
       {},
       [](const Inputs& x, const Lookup&) { return x[0].to(at::kDouble).div(x[1]).trunc().to(at::kLong); }},
      {"remainder", {whole, whole_divisor}, {}, {}, pair<at::remainder>},
      {"fmod", {whole, whole_divisor}, {}, {}, pair<at::fmod>},
      {"bitwise_and", {whole, whole_divisor}, {}, {}, pair<at::bitwise_and>},
      {"bitwise_or", {whole, whole_divisor}, {}, {}, pair<at::bitwise_or>},
      {"bitwise_xor", {whole, whole_divisor}, {}, {}, pair<at::bitwise_xor>},
  };
  for (OperatorCase& c : cases) {
    const bool is_extreme = c.op == "minimum" || c.op == "maximum" || c.op == "prelu";
    c.is_total = is_extreme;
    if (c.op == "remainder" || c.op == "fmod") c.gradient = CaseGradient::kSteps;
    if (!c.inputs[0].has_gradient()) c.gradient = CaseGradient::kNone;
  }
  return cases;
}

OperatorCase predicate(const char* op, std::vector<CaseInput> inputs, OperatorCase::Reference reference) {
  return {.op = op,
          .inputs = std::move(inputs),
          .reference = std::move(reference),
          .gradient = CaseGradient::kNone};
}

std::vector<OperatorCase> predicate_cases() {
  const CaseInput number = CaseInput({3, 4}).of(DType::kInt32, 0, 2);
  const CaseInput truth = CaseInput({3, 4}).of(DType::kBool, 0, 1);
  const CaseInput whole = CaseInput({3, 4}).of(DType::kFloat32, -1, 1);
  return {
      predicate("eq", {number, number}, pair<at::eq>),
      predicate("lt", {whole, whole}, pair<at::lt>),
      predicate("le", {number, number}, pair<at::le>),
      predicate("gt", {number, number}, pair<at::gt>),
      predicate("ge", {whole, whole}, pair<at::ge>),
      predicate("logical_and", {truth, truth}, pair<at::logical_and>),
      predicate("logical_or", {truth, truth}, pair<at::logical_or>),
      predicate("logical_xor", {truth, truth}, pair<at::logical_xor>),
      predicate("logical_not", {truth}, unary<at::logical_not>),
      predicate("isnan", {whole}, unary<at::isnan>),
      predicate("isinf", {whole}, unary<at::isinf>),
      {"where",
       {truth, {3, 4}, {1, 4}},
       {},
       {},
       [](const Inputs& x, const Lookup&) { return at::where(x[0], x[1], x[2]); }},
  };
}

std::vector<OperatorCase> conversion_cases() {
  const CaseInput shape = {3, 4};
  return {
      {"identity", {shape}, {}, {}, [](const Inputs& x, const Lookup&) { return x[0].clone(); }},
      {"assert",
       {shape, CaseInput({}).of(DType::kBool, 1, 1)},
       {},
       {{"message", "what never happens"}},
       [](const Inputs& x, const Lookup&) { return x[0].clone(); }},
      {"dropout", {shape}, {}, {{"p", 0.0}}, [](const Inputs& x, const Lookup&) { return x[0].clone(); }},
      {.op = "cast",
       .inputs = {shape.between(-3, 3)},
       .attributes = {{"dtype", "int32"}},
       .reference = [](const Inputs& x, const Lookup&) { return x[0].trunc().to(at::kInt); },
       .gradient = CaseGradient::kNone},
      {.op = "inference_dropout",
       .inputs = {shape},
       .reference = [](const Inputs& x, const Lookup&) { return x[0].clone(); },
       .constants = {NodeInput::of_constant(0.25), NodeInput::of_constant(0)}},
      {.op = "inference_dropout",
       .inputs = {shape},
       .reference = [](const Inputs& x, const Lookup&) { return at::ones(x[0].sizes(), at::kBool); },
       .constants = {NodeInput::of_constant(0.0), NodeInput::of_constant(1)},
       .gradient = CaseGradient::kNone,
       .result = 1},
  };
}

}  // namespace

std::vector<OperatorCase> function_cases() {
  std::vector<OperatorCase> all = activation_cases();
  for (const auto& more : {math_cases(), pair_cases(), predicate_cases(), conversion_cases()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace detent
