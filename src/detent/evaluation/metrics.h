#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/process_group.h"
#include "detent/core/share_error.h"
#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Mean loss and top-1 accuracy over a number of samples; mergeable.
struct Metrics {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t count = 0;

  double loss() const { return count > 0 ? loss_sum / static_cast<double>(count) : 0; }
  double accuracy() const {
    return count > 0 ? static_cast<double>(correct) / static_cast<double>(count) : 0;
  }
  double standard_error() const { return share_error(correct, count); }  // of the accuracy
  void add(const Metrics& other);
  /// "loss 0.1234, accuracy 0.9876 +- 0.0011 (9876/10000)"
  std::string text() const;
};

/// Which output has a number for each class: the first, or, where that is the label (of scikit-learn's
/// classifiers), the first of floats.
size_t class_output(const Graph& graph);

/// Whether the graph ends in log_softmax, so that its outputs are logarithms of probabilities; else they are
/// logits.
bool gives_log_probabilities(const Graph& graph);

/// Metrics of each sample of a batch: its cross entropy, in double, and whether the first of the largest
/// outputs is right. `output` is float32 [samples, classes], `labels` int64 [samples]. Throws Error where
/// these do not fit.
std::vector<Metrics> classification_metrics(const Graph& graph, const Tensor& output, const Tensor& labels);

/// The sum over all workers, where entry k of worker r is entry k * size + r of the whole, added in the
/// order of the whole: the same bits at each worker.
Metrics sum_over_workers(const std::vector<Metrics>& own, ProcessGroup& group);

}  // namespace detent
