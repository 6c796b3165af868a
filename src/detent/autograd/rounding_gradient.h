#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "detent/autograd/affine_rounding.h"
#include "detent/graph/owned_parameters.h"

namespace detent {

/// How a training rounds x / scale.
struct TrainedRounding {
  Rounding kind = Rounding::kNearest;
  at::Tensor up;      // of kLearned
  uint64_t seed = 0;  // of kStochastic
};

/// clamp(round(x / scale), low, high) * scale as round_affine, with any rounding; scale, low and high
/// broadcast against x. Roundings pass gradients straight through; that of `up` is scale * h'(up) where x
/// does not saturate. Of kDorefa the gradient passes tanh(x) / max |tanh(x)| too.
at::Tensor round_affine(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& low,
                        const at::Tensor& high, const TrainedRounding& rounding, AffineGradient gradient);

/// h(up) of kLearned, differentiable.
at::Tensor round_up_share(const at::Tensor& up);

}  // namespace detent
