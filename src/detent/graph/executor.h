#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Sees the tensors of every node while a graph runs: before the node its inputs ("data_in_0", ...), after it
/// its result ("data_out_0"). The tensor is only valid during the call. Values are those before quantization.
using OperandObserver = std::function<void(const Node& node, std::string_view operand, const Tensor& value)>;

/// Anything that runs a graph in inference mode: the libtorch interpreter, the integer runtime. Several threads
/// may run graphs at once. Inside parallel_for a run takes the calling thread alone: libraries cut sums of
/// float32 by threads, so that the last bits of results otherwise depend on how many there are.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Inputs in the order of the placeholders, batch first. Returns the output node's value.
  virtual Tensor run(const Graph& graph, std::span<const Tensor> inputs,
                     const OperandObserver& observe = {}) = 0;
};

}  // namespace detent
