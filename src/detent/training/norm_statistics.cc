#include "detent/training/norm_statistics.h"

#include <ATen/ops/zeros_like.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {

NormStatistics::NormStatistics(Graph& graph) {
  for (Node& node : graph.nodes()) {
    if (!is_batch_norm(node)) continue;
    const double momentum = number_attribute(node, "momentum");
    for (const char* name : {"running_mean", "running_var"}) {
      Parameter* parameter = node.find_parameter(name);
      if (parameter == nullptr || momentum <= 0) continue;
      const at::Tensor running = to_torch(parameter->tensor);
      statistics_.push_back(
          {running, running.clone(), at::zeros_like(running, at::TensorOptions(at::kDouble)), momentum});
    }
  }
}

/// A run leaves (1 - momentum) before + momentum * the batch's.
void NormStatistics::add(Interpreter& interpreter, const std::vector<at::Tensor>& inputs) {
  interpreter.run(inputs);
  for (const Statistic& statistic : statistics_) {
    const at::Tensor moved = statistic.running.to(at::kDouble);
    const at::Tensor kept = statistic.before.to(at::kDouble).mul(1 - statistic.momentum);
    statistic.sum.add_(moved.sub(kept).div(statistic.momentum));
    statistic.running.copy_(statistic.before);
  }
  ++batches_;
}

void NormStatistics::finish() {
  if (batches_ == 0) return;
  for (const Statistic& statistic : statistics_) statistic.running.copy_(statistic.sum.div(batches_));
}

}  // namespace detent
