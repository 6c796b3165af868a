#pragma once

#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Tensors by the key PyTorch gives them ("seq_blocks.0.weight"), in the order of the modules.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

/// All parameters and running statistics of the graph; the tensors share its storage. Tied weights stand
/// there under the key of each node, one after the other; what a quantizer owns once, under that of its first
/// operand ("seq_blocks.0.weight_scale").
StateDict state_dict(const Graph& graph);

/// Copies `state` into the graph's parameters. Throws Error that lists every missing, extra and misshapen
/// entry before anything is changed. `source` (a file name) begins the message. Extra "num_batches_tracked"
/// counters are no fault, and of tied weights one key is enough; float16, bfloat16 and float64 entries are
/// converted.
void load_state_dict(Graph& graph, const StateDict& state, const std::string& source);

}  // namespace detent
