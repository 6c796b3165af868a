#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/autograd/interpreter.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/training/options.h"

namespace detent {

/// The loss of training: the cross entropy with the labels, smoothed by label_smoothing (Szegedy et al.
/// 2016, arXiv:1512.00567), and, with a teacher, its distillation (Hinton et al. 2015, arXiv:1503.02531):
///
///     (1 - w) cross_entropy + w T^2 KL(softmax(teacher / T) || softmax(output / T))
///
/// with w distill_weight and T distill_temperature; means over the batch. For each of distill_nodes comes
/// distill_nodes_weight * mean((x - t)^2) / mean(t^2), with x what the network computes there and t the
/// teacher (Romero et al. 2015, arXiv:1412.6550).
class Objective {
 public:
  /// `graph` and `teacher` must outlive this. The teacher takes the same inputs and gives as many classes; it
  /// is not trained.
  Objective(const Graph& graph, const TrainingOptions& options, const Graph* teacher);

  /// Labels of the samples: `first`, or where they are mixed, `share` of it and the rest of
  /// `second`; int64 [n].
  struct Labels {
    at::Tensor first;
    at::Tensor second = {};
    double share = 1;

    Labels(at::Tensor labels) : first(std::move(labels)) {}
    Labels(at::Tensor labels, at::Tensor others, double share_of_first)
        : first(std::move(labels)), second(std::move(others)), share(share_of_first) {}
  };

  /// The network's values at distill_nodes, by node.
  using NodeValues = std::map<std::string, at::Tensor, std::less<>>;
  /// Writes those of the trained network to `values`, which must outlive it; empty where there are none to
  /// learn from.
  TorchObserver observer(NodeValues& values) const;

  /// Loss of the network's outputs, [n, classes].
  at::Tensor loss(const at::Tensor& output, const std::vector<at::Tensor>& inputs, const Labels& labels,
                  const NodeValues& values = {}) const;

 private:
  at::Tensor of_labels(const at::Tensor& output, const Labels& labels) const;
  at::Tensor of_labels(const at::Tensor& output, const at::Tensor& labels) const;
  at::Tensor of_teacher(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                        const NodeValues& values) const;
  /// The teacher's results of distill_nodes go to `values`.
  at::Tensor run_teacher(const std::vector<at::Tensor>& inputs, NodeValues& values) const;

  const Graph& graph_;
  double label_smoothing_;
  double distill_weight_;
  double temperature_;
  std::vector<std::string> nodes_;
  double nodes_weight_;
  std::unique_ptr<const Program> teacher_;
};

}  // namespace detent
