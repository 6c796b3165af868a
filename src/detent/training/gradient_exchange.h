#pragma once

#include <span>

#include "detent/core/process_group.h"
#include "detent/graph/graph.h"
#include "detent/training/optimizer.h"

namespace detent {

/// Replaces the gradients of float32 `parameters` by their sums over the workers, and `others` by theirs, in
/// one exchange. A worker whose share of a batch was empty has no gradients and adds nothing; a parameter
/// without a gradient at every worker stays without one.
void sum_gradients(std::span<const NamedParameter> parameters, std::span<float> others, ProcessGroup& group);

/// The samples of all workers' shares of a batch, joined along dimension 0; a share may be empty.
at::Tensor gather_samples(const at::Tensor& own, ProcessGroup& group);

/// Replaces what each worker tracked for itself, the running statistics of instance norm, by the means over
/// the workers; those of batch norm are of all workers' samples already.
void average_running_statistics(Graph& graph, ProcessGroup& group);

}  // namespace detent
