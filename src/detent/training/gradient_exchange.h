#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/core/process_group.h"
#include "detent/graph/graph.h"

namespace detent {

/// Replaces the gradients of float32 `parameters` by their sums over the workers, in one exchange. A worker
/// whose share of a batch was empty has none and adds nothing; a parameter without a gradient at every worker
/// stays without one.
void sum_gradients(const std::vector<at::Tensor>& parameters, ProcessGroup& group);

/// Replaces what each worker tracked for itself, the running statistics of batch norm, by the means over the
/// workers.
void average_running_statistics(Graph& graph, ProcessGroup& group);

}  // namespace detent
