#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/core/process_group.h"
#include "detent/core/share_error.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/executor.h"
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

/// Mean cross entropy of a batch. When the graph ends in log_softmax its output is taken as
/// log-probabilities, otherwise as logits.
at::Tensor classification_loss(const Graph& graph, const at::Tensor& output, const at::Tensor& labels);

/// Correct predictions: the first of the largest outputs decides.
int64_t count_correct(const at::Tensor& output, const at::Tensor& labels);

/// The sum of what the workers hold, entry k of worker r being the whole's entry k * size + r, added in the
/// order of the whole: the same bits at each worker.
Metrics sum_over_workers(const std::vector<Metrics>& own, ProcessGroup& group);

/// Runs the graph in inference mode over the whole split, in order. The workers of `group` take turns at the
/// batches; each gets the whole result, the same bits as of one worker. Of a network with large activations
/// a batch runs in parts, which bounds the memory. `loader_threads` load batches ahead
/// of the network; with 0 it waits for them. Throws Error on a loss that is not finite, naming the samples
/// and the first node whose output is not.
Metrics evaluate(const Graph& graph, const Dataset& dataset, int64_t batch_size,
                 ProcessGroup& group = single_process(), int64_t loader_threads = 0);

/// The same, but nothing when `stop` says so. It is asked before each batch, by each worker equally often,
/// and must say the same at all of them.
std::optional<Metrics> evaluate_until(const std::function<bool()>& stop, const Graph& graph,
                                      const Dataset& dataset, int64_t batch_size, ProcessGroup& group,
                                      int64_t loader_threads);

/// Like evaluate, with the results of `executor`.
Metrics evaluate(const Program& program, const Graph& graph, const Dataset& dataset, int64_t batch_size,
                 ProcessGroup& group = single_process(), int64_t loader_threads = 0);

}  // namespace detent
