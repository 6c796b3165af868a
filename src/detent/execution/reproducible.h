#pragma once

#include "detent/execution/evaluators/evaluator.h"
#include "detent/float32/float_node.h"

namespace detent {

// Results that depend on the values alone (the layer float32), where libtorch's depend on the processor, on
// how a tensor lies in memory and on the number of threads. No gradients.

/// What computes the operator's nodes so; nullptr where libtorch's bits are the same everywhere.
const FloatOperator* reproducible_operator(std::string_view op);

/// Whether it is to compute this node: where that is asked for, of float32.
bool takes_reproducible(const Evaluation& evaluation);

std::vector<Flow> reproducible_results(const FloatOperator& by, const Evaluation& evaluation);

}  // namespace detent
