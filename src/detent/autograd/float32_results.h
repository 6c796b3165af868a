#pragma once

#include "detent/operators/autograd.h"

namespace detent {

/// Results by the layer float32 for a node whose operator has no gradient.
std::vector<Flow> float32_results(const Evaluation& evaluation);

}  // namespace detent
