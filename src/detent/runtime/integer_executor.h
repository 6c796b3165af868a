#pragma once

#include <memory>
#include <string_view>

#include "detent/graph/executor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Runs a quantized graph in integers: codes of at most 16 bits, 32-bit sums, requantized as the graph says
/// (Graph::requantization). A slow and plain reference, without libtorch, that other ways of running the
/// graph are held to. Its results are the same for any number of threads.
///
/// Inputs become codes where the first node takes them in; results are float only behind the last node that
/// has an output type, and of softmax and log_softmax.
class IntegerExecutor final : public Executor {
 public:
  /// Proves from the weights and the ranges of the codes that no sum can overflow. Throws Error naming the
  /// node where one could, and the nodes that have no integer form. The graph must outlive the executor.
  explicit IntegerExecutor(const Graph& graph);
  ~IntegerExecutor() override;

  /// `graph` is that of the constructor. Observers see the values of the codes, after quantization. Throws
  /// Error where an input is NaN.
  Tensor run(const Graph& graph, std::span<const Tensor> inputs, const OperandObserver& observe = {},
             ObservedValues values = ObservedValues::kAfterQuantization) override;

  /// Largest magnitude that a sum of the node can reach; 0 of nodes that have none.
  int64_t sum_bound(std::string_view node) const;

 private:
  struct Program;
  std::unique_ptr<const Program> program_;
};

}  // namespace detent
