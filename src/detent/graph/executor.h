#pragma once

#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Sees the tensors of every node while a graph runs: before the node its inputs ("data_in_0", ...), after it
/// its result ("data_out_0"). The tensor is only valid during the call.
using OperandObserver = std::function<void(const Node& node, std::string_view operand, const Tensor& value)>;

/// Which values an observer sees of an operand that has a format: those that come, or those that the format
/// leaves of them, which is what the node computes with and what its readers get. A result comes as the node
/// computes it from its quantized operands; of a sum of integer products that is the sum in units of its
/// scale. Without a format both are the same.
enum class ObservedValues { kBeforeQuantization, kAfterQuantization };
constexpr std::array<const char*, 2> enum_names(ObservedValues) {
  return {"before_quantization", "after_quantization"};
}

/// Anything that runs a graph in inference mode: the libtorch interpreter, the integer runtime. Several
/// threads may run graphs at once. Inside parallel_for a run takes the calling thread alone: libraries cut
/// sums of float32 by threads, so that the last bits of results otherwise depend on how many there are.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Inputs in the order of the placeholders, batch first. Returns the output node's value.
  virtual Tensor run(const Graph& graph, std::span<const Tensor> inputs, const OperandObserver& observe = {},
                     ObservedValues values = ObservedValues::kAfterQuantization) = 0;
};

}  // namespace detent
