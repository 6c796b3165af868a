#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/execution/interpreter.h"
#include "detent/graph/graph.h"

namespace detent {

/// Running statistics of batch norm found anew: their means over some batches, with weights and quantizers as
/// they are, in the place of averages that lag behind the weights.
class NormStatistics {
 public:
  /// `graph` must outlive this; it is what the interpreter trains.
  explicit NormStatistics(Graph& graph);

  bool is_empty() const { return statistics_.empty(); }
  /// Takes up the statistics of a batch, of which this worker may hold no samples.
  void add(Interpreter& interpreter, const std::vector<at::Tensor>& inputs);
  /// Puts the means in the place of the running statistics.
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
