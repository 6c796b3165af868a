#include "detent/training/objective.h"

#include <ATen/ops/exp.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nll_loss.h>

#include "detent/core/error.h"
#include "detent/training/evaluate.h"

namespace detent {

Objective::Objective(const Graph& graph, const TrainingOptions& options, const Graph* teacher)
    : graph_(graph),
      label_smoothing_(options.label_smoothing),
      distill_weight_(options.distill_weight),
      temperature_(options.distill_temperature) {
  if (teacher != nullptr) teacher_.emplace(*teacher);
}

at::Tensor Objective::loss(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                           const at::Tensor& labels) const {
  if (!teacher_) return of_labels(output, labels);
  return of_labels(output, labels).mul(1 - distill_weight_).add(of_teacher(output, inputs), distill_weight_);
}

at::Tensor Objective::of_labels(const at::Tensor& output, const at::Tensor& labels) const {
  const at::Tensor cross_entropy = classification_loss(graph_, output, labels);
  if (label_smoothing_ == 0) return cross_entropy;
  // With uniform labels: -mean over the classes. log_softmax leaves log-probabilities as they are.
  const at::Tensor uniform = at::log_softmax(output, 1).mean().neg();
  return cross_entropy.mul(1 - label_smoothing_).add(uniform, label_smoothing_);
}

at::Tensor Objective::of_teacher(const at::Tensor& output, const std::vector<at::Tensor>& inputs) const {
  // A copy, since autograd takes no tensors of inference mode.
  const at::Tensor wanted = teacher_->outputs(inputs).front().clone();
  if (wanted.sizes() != output.sizes()) {
    fail("teacher: it gives outputs of shape {}, the network of {}", shape_text(wanted.sizes().vec()),
         shape_text(output.sizes().vec()));
  }
  const at::Tensor log_wanted = at::log_softmax(wanted.div(temperature_), 1);
  const at::Tensor log_given = at::log_softmax(output.div(temperature_), 1);
  const at::Tensor divergence = log_wanted.exp().mul(log_wanted.sub(log_given)).sum(1).mean();
  return divergence.mul(temperature_ * temperature_);
}

}  // namespace detent
