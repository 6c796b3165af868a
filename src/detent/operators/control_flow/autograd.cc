#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "detent/autograd/interpreter.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/graph/loop.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

bool condition_holds(const at::Tensor& condition) { return condition.item<bool>(); }

/// Results of no iteration, from which those of several are joined.
std::vector<at::Tensor> without_rows(const Evaluation& e, size_t carried) {
  std::vector<Operand> inputs;
  for (const Flow& flow : e.inputs) {
    if (const auto* tensor = std::get_if<at::Tensor>(&flow)) {
      inputs.push_back({tensor->sizes().vec(), Value(), dtype_of(*tensor)});
    } else {
      const auto* number = std::get_if<int64_t>(&flow);
      inputs.push_back(constant_operand(number == nullptr ? Value() : Value(*number)));
    }
  }
  std::vector<at::Tensor> rows;
  const std::vector<Operand> results = infer_types(e.node, inputs);
  for (size_t i = carried; i < results.size(); ++i) {
    Shape shape = results[i].shape;
    std::ranges::replace(shape, kOpenSize, 0);
    rows.push_back(to_torch(Tensor(results[i].dtype, shape)));
  }
  return rows;
}

/// Gradients reach carried and captured values; parameters of the body are no leaves that an optimizer has.
Results loop(const Evaluation& e) {
  const Graph& body = *e.node.body;
  if (at::GradMode::is_enabled() && body.parameter_count() > 0)
    fail("node \"{}\" ({}): its body has weights, which training does not reach", e.node.name, e.node.op);
  const size_t carried = carried_count(e.node);
  const Interpreter interpreter(body);
  const int64_t most = e.is_absent(0) ? std::numeric_limits<int64_t>::max() : e.only_integer(0);
  bool runs = e.is_absent(1) || condition_holds(e.tensor(1));
  std::vector<at::Tensor> values = {at::zeros({}, at::kLong), at::ones({}, at::kBool)};
  for (size_t i = kLoopControls; i < e.inputs.size(); ++i) values.push_back(e.tensor(i));
  std::vector<std::vector<at::Tensor>> collected(result_count(e.node) - carried);
  for (int64_t i = 0; runs && i < most; ++i) {
    values[0] = at::full({}, i, at::kLong);
    const std::vector<at::Tensor> results = interpreter.outputs(values);
    runs = condition_holds(results[0]);
    for (size_t k = 0; k < carried; ++k) values[kLoopControls + k] = results[1 + k];
    for (size_t k = 0; k < collected.size(); ++k) collected[k].push_back(results[1 + carried + k]);
  }
  std::vector<at::Tensor> results(values.begin() + kLoopControls,
                                  values.begin() + kLoopControls + static_cast<int64_t>(carried));
  const bool has_rows = !collected.empty() && !collected[0].empty();
  if (!has_rows) {
    for (at::Tensor& rows : without_rows(e, carried)) results.push_back(std::move(rows));
    return Results(results);
  }
  for (const std::vector<at::Tensor>& rows : collected) results.push_back(at::stack(rows));
  return Results(results);
}

}  // namespace

EvaluatorList control_flow_evaluators() { return {{"loop", loop}}; }

}  // namespace detent
