#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "detent/formats/quant_spec.h"

namespace detent {

/// Rounds a float32 tensor to what `spec` can hold, with the kernels of formats/; differentiable with the
/// straight-through gradient of the spec. `seed` decides stochastic rounding: equal seeds, equal draws.
at::Tensor fake_quantize(const at::Tensor& input, const QuantSpec& spec, uint64_t seed = 0);

}  // namespace detent
