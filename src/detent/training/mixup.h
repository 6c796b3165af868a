#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/training/objective.h"

namespace detent {

/// Mixes every sample with another of the batch (Zhang et al. 2018, arXiv:1710.09412): x <- m x + (1 - m) x',
/// with one m ~ Beta(alpha, alpha) and one permutation a batch, from libtorch's default generator. Inputs
/// that are not float32 stay. With alpha 0 nothing happens, and nothing is drawn.
Objective::Labels mix_samples(std::vector<at::Tensor>& inputs, const at::Tensor& labels, double alpha);

}  // namespace detent
