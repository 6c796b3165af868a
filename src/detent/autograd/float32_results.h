#pragma once

#include "detent/autograd/evaluators/evaluator.h"

namespace detent {

/// What the layer float32 computes of a node whose operator has no gradient.
std::vector<Flow> float32_results(const Evaluation& evaluation);

}  // namespace detent
