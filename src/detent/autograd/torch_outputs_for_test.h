#pragma once

#include <vector>

#include <ATen/core/grad_mode.h>

#include "detent/autograd/interpreter.h"
#include "detent/graph/folded_norm.h"

namespace detent {

/// The outputs that libtorch computes of a network that is not trained: another opinion than that of our
/// kernels.
inline std::vector<at::Tensor> torch_outputs(const Graph& graph, const std::vector<at::Tensor>& inputs,
                                             const TorchObserver& observe = {},
                                             ObservedValues values = ObservedValues::kAfterQuantization) {
  Graph settled = graph;
  if (folds_norms(settled)) fold_trained_norms(settled);
  for (Node& node : settled.nodes())
    if (node.op == "dropout") node.attributes["p"] = 0.0;
  const at::NoGradGuard no_gradients;
  Interpreter interpreter(settled);
  interpreter.freeze_running_statistics(true);
  return interpreter.outputs(inputs, observe, values);
}

inline at::Tensor torch_output(const Graph& graph, const std::vector<at::Tensor>& inputs) {
  return torch_outputs(graph, inputs).front();
}
inline at::Tensor torch_output(const Graph& graph, const at::Tensor& input) {
  return torch_outputs(graph, {input}).front();
}

}  // namespace detent
