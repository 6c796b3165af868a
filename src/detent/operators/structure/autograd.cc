#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/all.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sub.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

at::Tensor sub(const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Results evaluate_function_pair(const Evaluation& e) {
  return Function(e.as_tensor(0), e.as_tensor(1));
}

Results evaluate_add(const Evaluation& e) { return at::add(e.as_tensor(0), e.as_tensor(1)); }

template <at::Tensor (*Product)(const at::Tensor&, const at::Tensor&)>
Results evaluate_matrix_product(const Evaluation& e) {
  return Product(e.tensor(0), e.tensor(1));
}

Results evaluate_clamp(const Evaluation& e) {
  at::Tensor result = e.tensor(0);
  if (!e.is_absent(1)) result = at::maximum(result, e.as_tensor(1));
  if (!e.is_absent(2)) result = at::minimum(result, e.as_tensor(2));
  return result;
}

Results evaluate_inference_dropout(const Evaluation& e) {
  const auto is_zero = [&](size_t index) { return e.as_tensor(index).eq(0).all().item<bool>(); };
  if (!is_zero(1) && !is_zero(2))
    fail("node \"{}\": inputs 1 and 2 ask to drop elements at random, as in training", e.node.name);
  return Results({e.tensor(0), at::ones(e.tensor(0).sizes(), at::kBool)});
}

Results evaluate_cast(const Evaluation& e) {
  return converted(e.tensor(0), scalar_type(dtype_of_name(choice_attribute(e.node, "dtype"))));
}

Results evaluate_assert(const Evaluation& e) {
  if (!at::all(e.tensor(1)).item<bool>())
    fail("node \"{}\" (assert): {}", e.node.name, text_attribute(e.node, "message"));
  return e.inputs[0];
}

}  // namespace

EvaluatorList function_evaluators() {
  return {
      {"dropout",
       [](const Evaluation& e) -> Results {
         return at::dropout(e.tensor(0), number_attribute(e.node, "p"), e.training);
       }},
      {"inference_dropout", evaluate_inference_dropout},
      {"identity", [](const Evaluation& e) -> Results { return e.inputs[0]; }},
      {"get_attr", [](const Evaluation& e) -> Results { return e.parameter("value"); }},
      {"output", [](const Evaluation& e) -> Results { return e.inputs[0]; }},
      {"cast", evaluate_cast},
      {"assert", evaluate_assert},
      {"clamp", evaluate_clamp},
      {"add", evaluate_add},
      {"sub", evaluate_function_pair<sub>},
      {"mul", evaluate_function_pair<at::mul>},
      {"matmul", evaluate_matrix_product<at::matmul>},
      {"einsum",
       [](const Evaluation& e) -> Results {
         std::vector<at::Tensor> tensors;
         for (size_t i = 0; i < e.inputs.size(); ++i) tensors.push_back(e.tensor(i));
         return at::einsum(text_attribute(e.node, "equation"), tensors);
       }},
      {"bmm", evaluate_matrix_product<at::bmm>},
  };
}

}  // namespace detent
