#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/execution/interpreter.h"
#include "detent/graph/graph.h"
#include "detent/training/options.h"

namespace detent {

/// What training minimizes: the cross entropy with the labels, smoothed by label_smoothing (Szegedy et al.
/// 2016, arXiv:1512.00567), and, with a teacher, its distillation (Hinton et al. 2015, arXiv:1503.02531):
///
///     (1 - w) cross_entropy + w T^2 KL(softmax(teacher / T) || softmax(output / T))
///
/// with w distill_weight and T distill_temperature; means over the batch.
class Objective {
 public:
  /// `graph` and `teacher` must outlive this. The teacher takes the same inputs and gives as many classes; it
  /// is not trained.
  Objective(const Graph& graph, const TrainingOptions& options, const Graph* teacher);

  /// Loss of the network's outputs, [n, classes]; `labels` int64 [n].
  at::Tensor loss(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                  const at::Tensor& labels) const;

 private:
  at::Tensor of_labels(const at::Tensor& output, const at::Tensor& labels) const;
  at::Tensor of_teacher(const at::Tensor& output, const std::vector<at::Tensor>& inputs) const;

  const Graph& graph_;
  double label_smoothing_;
  double distill_weight_;
  double temperature_;
  std::optional<Interpreter> teacher_;
};

}  // namespace detent
