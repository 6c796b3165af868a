#pragma once

#include <span>

#include "detent/training/optimizer.h"
#include "detent/training/options.h"

namespace detent {

/// Limits gradients as the options ask, first each one's magnitude, then the Euclidean norm of all together:
/// where that is above the limit they are multiplied by limit / (norm + 1e-6), as PyTorch does (Pascanu et
/// al. 2013, arXiv:1211.5063). Throws Error naming the first parameter whose gradient is not finite when
/// there is a norm to compute.
void clip_gradients(std::span<const NamedParameter> parameters, const TrainingOptions& options);

}  // namespace detent
