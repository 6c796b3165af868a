#include "detent/training/objective.h"

#include <algorithm>

#include <ATen/ops/exp.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nll_loss.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/engine/fast_executor.h"
#include "detent/training/classification.h"

namespace detent {

Objective::Objective(const Graph& graph, const TrainingOptions& options, const Graph* teacher)
    : graph_(graph),
      label_smoothing_(options.label_smoothing),
      distill_weight_(options.distill_weight),
      temperature_(options.distill_temperature),
      nodes_(options.distill_nodes),
      nodes_weight_(options.distill_nodes_weight) {
  if (teacher != nullptr) teacher_ = FastExecutor().compile(*teacher);
  if (nodes_.empty()) return;
  if (!teacher_)
    fail("distill_nodes: got {} nodes, but no teacher to learn their values from", nodes_.size());
  for (const std::string& name : nodes_) {
    graph.node(name);
    teacher->node(name);
  }
}

TorchObserver Objective::observer(NodeValues& values) const {
  if (nodes_.empty()) return {};
  return [this, &values](const Node& node, std::string_view operand, const at::Tensor& value) {
    const bool is_wanted = operand == "data_out_0" && std::ranges::find(nodes_, node.name) != nodes_.end();
    if (is_wanted) values[node.name] = value;
  };
}

at::Tensor Objective::loss(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                           const Labels& labels, const NodeValues& values) const {
  if (!teacher_) return of_labels(output, labels);
  return of_labels(output, labels)
      .mul(1 - distill_weight_)
      .add(of_teacher(output, inputs, values), distill_weight_);
}

at::Tensor Objective::of_labels(const at::Tensor& output, const Labels& labels) const {
  const at::Tensor first = of_labels(output, labels.first);
  if (!labels.second.defined()) return first;
  return first.mul(labels.share).add(of_labels(output, labels.second), 1 - labels.share);
}

at::Tensor Objective::of_labels(const at::Tensor& output, const at::Tensor& labels) const {
  const at::Tensor cross_entropy = classification_loss(graph_, output, labels);
  if (label_smoothing_ == 0) return cross_entropy;
  // With uniform labels: -mean over the classes. log_softmax leaves log-probabilities as they are.
  const at::Tensor uniform = at::log_softmax(output, 1).mean().neg();
  return cross_entropy.mul(1 - label_smoothing_).add(uniform, label_smoothing_);
}

at::Tensor Objective::run_teacher(const std::vector<at::Tensor>& inputs, NodeValues& values) const {
  std::vector<Tensor> given;
  for (const at::Tensor& input : inputs) given.push_back(from_torch(input.contiguous()));
  Observation shown = Observation::of_none();
  for (const std::string& node : nodes_) shown.operands->emplace(node, "data_out_0");
  shown.see = [&](const Node& node, std::string_view, const Tensor& value) {
    values[node.name] = to_torch(value.clone());
  };
  return to_torch(teacher_->run(given, shown).front());
}

at::Tensor Objective::of_teacher(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                                 const NodeValues& values) const {
  NodeValues wanted_values;
  const at::Tensor wanted = run_teacher(inputs, wanted_values);
  if (wanted.sizes() != output.sizes()) {
    fail("teacher: it gives outputs of shape {}, the network of {}", shape_text(wanted.sizes().vec()),
         shape_text(output.sizes().vec()));
  }
  const at::Tensor log_wanted = at::log_softmax(wanted.div(temperature_), 1);
  const at::Tensor log_given = at::log_softmax(output.div(temperature_), 1);
  const at::Tensor divergence = log_wanted.exp().mul(log_wanted.sub(log_given)).sum(1).mean();
  at::Tensor loss = divergence.mul(temperature_ * temperature_);
  for (const auto& [name, teacher] : wanted_values) {
    const auto given = values.find(name);
    DETENT_CHECK(given != values.end(), "no value of node {}", name);
    const at::Tensor distance = given->second.sub(teacher).pow(2).mean();
    loss = loss.add(distance.div(teacher.pow(2).mean().add(1e-12)), nodes_weight_);
  }
  return loss;
}

}  // namespace detent
