#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "detent/evaluation/metrics.h"
#include "detent/graph/graph.h"

namespace detent {

/// Mean cross entropy of a batch, to be differentiated. When the graph ends in log_softmax its output is
/// taken as log-probabilities, otherwise as logits.
at::Tensor classification_loss(const Graph& graph, const at::Tensor& output, const at::Tensor& labels);

/// Correct predictions: the first of the largest outputs decides.
int64_t count_correct(const at::Tensor& output, const at::Tensor& labels);

}  // namespace detent
