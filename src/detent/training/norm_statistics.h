#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/autograd/interpreter.h"
#include "detent/graph/graph.h"

namespace detent {

/// Re-estimated running statistics of batch norm: means over some batches with the current weights and
/// quantizers, which replace averages that lag behind the weights.
class NormStatistics {
 public:
  /// `graph` must outlive this; it is what the interpreter trains.
  explicit NormStatistics(Graph& graph);

  bool is_empty() const { return statistics_.empty(); }
  /// Adds the statistics of a batch, of which this worker may hold no samples.
  void add(Interpreter& interpreter, const std::vector<at::Tensor>& inputs);
  /// Replaces the running statistics by the means.
  void finish();

 private:
  struct Statistic {
    at::Tensor running;
    at::Tensor before;
    at::Tensor sum;
    double momentum = 0;
  };
  std::vector<Statistic> statistics_;
  int64_t batches_ = 0;
};

}  // namespace detent
