#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "detent/formats/quant_spec.h"

namespace detent {

/// Rounds a float32 tensor to what `spec` can hold, with the kernels of formats/; differentiable with the
/// straight-through gradient of the spec. `seed` decides stochastic rounding: equal seeds, equal draws.
at::Tensor fake_quantize(const at::Tensor& input, const QuantSpec& spec, uint64_t seed = 0);

/// The same with the learned scale `scale` ([], [channels] or [groups], above 0) of
/// formats/groups/learned_scale.h, for `samples` samples in a batch (1 for parameters). Gradients (Esser et
/// al. 2019, arXiv:1902.08153), with v = x / scale and N elements a scale and sample: for x 1 where v does
/// not saturate, else 0; for scale, 1 / sqrt(N * Q_P) times code - v where v does not saturate, else code.
at::Tensor fake_quantize(const at::Tensor& input, const QuantSpec& spec, const at::Tensor& scale,
                         int64_t samples, uint64_t seed = 0);

}  // namespace detent
