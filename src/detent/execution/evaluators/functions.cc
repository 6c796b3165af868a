#include <ATen/ops/adaptive_avg_pool1d.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_avg_pool3d.h>
#include <ATen/ops/adaptive_max_pool1d.h>
#include <ATen/ops/adaptive_max_pool2d.h>
#include <ATen/ops/adaptive_max_pool3d.h>
#include <ATen/ops/add.h>
#include <ATen/ops/avg_pool1d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

#include "detent/core/error.h"
#include "detent/execution/evaluators/evaluator.h"
#include "detent/execution/torch_tensor.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }
at::Tensor sub(const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
Results evaluate_pair(const Evaluation& e) {
  return Function(e.as_tensor(0), e.as_tensor(1));
}

Results evaluate_clamp(const Evaluation& e) {
  at::Tensor result = e.tensor(0);
  if (!e.is_absent(1)) result = at::maximum(result, e.as_tensor(1));
  if (!e.is_absent(2)) result = at::minimum(result, e.as_tensor(2));
  return result;
}

Results evaluate_cast(const Evaluation& e) {
  return e.tensor(0).to(scalar_type(dtype_of_name(choice_attribute(e.node, "dtype"))));
}

template <size_t kDims>
struct Window {
  explicit Window(const Node& node)
      : kernel(integers_attribute(node, "kernel_size", kDims)),
        stride(pool_stride(node, kDims)),
        padding(integers_attribute(node, "padding", kDims)),
        ceil_mode(boolean_attribute(node, "ceil_mode")) {}
  std::vector<int64_t> kernel, stride, padding;
  bool ceil_mode;
};

template <size_t kDims>
Results evaluate_max_pool(const Evaluation& e) {
  constexpr auto kPool = kDims == 1 ? at::max_pool1d : kDims == 2 ? at::max_pool2d : at::max_pool3d;
  const Window<kDims> w(e.node);
  return kPool(e.tensor(0), w.kernel, w.stride, w.padding, integers_attribute(e.node, "dilation", kDims),
               w.ceil_mode);
}

template <size_t kDims>
Results evaluate_avg_pool(const Evaluation& e) {
  const Window<kDims> w(e.node);
  const bool count_pad = boolean_attribute(e.node, "count_include_pad");
  if constexpr (kDims == 1) {
    return at::avg_pool1d(e.tensor(0), w.kernel, w.stride, w.padding, w.ceil_mode, count_pad);
  } else {
    constexpr auto kPool = kDims == 2 ? at::avg_pool2d : at::avg_pool3d;
    return kPool(e.tensor(0), w.kernel, w.stride, w.padding, w.ceil_mode, count_pad, {});
  }
}

template <at::Tensor (*Pool)(const at::Tensor&, at::IntArrayRef), size_t kDims>
Results evaluate_adaptive_mean(const Evaluation& e) {
  return Pool(e.tensor(0), integers_attribute(e.node, "output_size", kDims));
}

template <std::tuple<at::Tensor, at::Tensor> (*Pool)(const at::Tensor&, at::IntArrayRef), size_t kDims>
Results evaluate_adaptive_max(const Evaluation& e) {
  return std::get<0>(Pool(e.tensor(0), integers_attribute(e.node, "output_size", kDims)));
}

}  // namespace

EvaluatorList function_evaluators() {
  return {
      {"dropout",
       [](const Evaluation& e) -> Results {
         return at::dropout(e.tensor(0), number_attribute(e.node, "p"), e.training);
       }},
      {"identity", [](const Evaluation& e) -> Results { return e.inputs[0]; }},
      {"get_attr", [](const Evaluation& e) -> Results { return e.parameter("value"); }},
      {"output", [](const Evaluation& e) -> Results { return e.inputs[0]; }},
      {"cast", evaluate_cast},
      {"clamp", evaluate_clamp},
      {"add", evaluate_pair<add>},
      {"sub", evaluate_pair<sub>},
      {"mul", evaluate_pair<at::mul>},
      {"matmul", [](const Evaluation& e) -> Results { return at::matmul(e.tensor(0), e.tensor(1)); }},
      {"bmm", [](const Evaluation& e) -> Results { return at::bmm(e.tensor(0), e.tensor(1)); }},
      {"max_pool1d", evaluate_max_pool<1>},
      {"max_pool2d", evaluate_max_pool<2>},
      {"max_pool3d", evaluate_max_pool<3>},
      {"avg_pool1d", evaluate_avg_pool<1>},
      {"avg_pool2d", evaluate_avg_pool<2>},
      {"avg_pool3d", evaluate_avg_pool<3>},
      {"adaptive_avg_pool1d", evaluate_adaptive_mean<at::adaptive_avg_pool1d, 1>},
      {"adaptive_avg_pool2d", evaluate_adaptive_mean<at::adaptive_avg_pool2d, 2>},
      {"adaptive_avg_pool3d", evaluate_adaptive_mean<at::adaptive_avg_pool3d, 3>},
      {"adaptive_max_pool1d", evaluate_adaptive_max<at::adaptive_max_pool1d, 1>},
      {"adaptive_max_pool2d", evaluate_adaptive_max<at::adaptive_max_pool2d, 2>},
      {"adaptive_max_pool3d", evaluate_adaptive_max<at::adaptive_max_pool3d, 3>},
  };
}

}  // namespace detent
