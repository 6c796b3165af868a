#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/where.h>

#include "detent/operators/autograd.h"
#include "detent/operators/elementwise/schema_functions.h"

namespace detent {
namespace {

using AtenFunction = c10::TypedOperatorHandle<at::Tensor(const at::Tensor&)>;

/// libtorch's function of the operator's name; all are looked up once.
const AtenFunction& aten_function(std::string_view op) {
  static const std::map<std::string_view, AtenFunction> functions = [] {
    std::map<std::string_view, AtenFunction> map;
    for (const FunctionRow& row : element_functions()) {
      const auto found = c10::Dispatcher::singleton().findSchema({fmt::format("aten::{}", row.op), ""});
      if (found) map.emplace(row.op, found->typed<at::Tensor(const at::Tensor&)>());
    }
    return map;
  }();
  return functions.at(op);
}

Results evaluate_by_name(const Evaluation& e) { return aten_function(e.node.op).call(e.tensor(0)); }

/// libtorch's sign of NaN is 0.
Results evaluate_sign(const Evaluation& e) {
  const at::Tensor x = e.tensor(0);
  const at::Tensor sign = at::sign(x);
  return x.is_floating_point() ? at::where(x != x, x, sign) : sign;
}

/// libtorch multiplies by 6 before it divides by it, which overflows.
Results evaluate_hardswish(const Evaluation& e) {
  const at::Tensor x = e.tensor(0);
  return at::where(x < 3, at::hardswish(x), x);
}

Results evaluate_softsign(const Evaluation& e) { return e.tensor(0).div(e.tensor(0).abs().add(1)); }

}  // namespace

EvaluatorList element_function_evaluators() {
  EvaluatorList list = {
      {"sign", evaluate_sign}, {"hardswish", evaluate_hardswish}, {"softsign", evaluate_softsign}};
  for (const FunctionRow& row : element_functions()) {
    const auto own = std::ranges::find(list, row.op, &EvaluatorList::value_type::first);
    if (own == list.end()) list.emplace_back(row.op, evaluate_by_name);
  }
  return list;
}

}  // namespace detent
