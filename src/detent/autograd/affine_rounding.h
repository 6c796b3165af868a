#pragma once

#include <ATen/core/Tensor.h>

#include "detent/autograd/affine_kernels.h"

namespace detent {

/// Which gradient reaches the input and the scale.
enum class AffineGradient {
  kLearnedStep,  // LSQ (Esser et al. 2019, arXiv:1902.08153): of both, also of the scale where x is inside
  kClipping,     // PACT (Choi et al. 2018, arXiv:1805.06085): of the scale only where x saturates
  kEverywhere,   // of the input also where it saturates, of the scale as LSQ
};

/// clamp(round(x / scale), low, high) * scale, differentiable in all four: scale, low and high are float32,
/// [] or [groups]; `low` and `high`, whole numbers, are codes minus the zero point. Of `low` and `high` the
/// gradient is the scale times that of the values which saturate there.
at::Tensor round_affine(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& low,
                        const at::Tensor& high, const AffineRows& rows, AffineGradient gradient);

/// `value` whose gradient is multiplied by `factor`.
at::Tensor with_gradient_factor(const at::Tensor& value, double factor);
/// `rounded`, which was made of `value`, with the gradient of `value` (straight through).
at::Tensor straight_through(const at::Tensor& value, const at::Tensor& rounded);

}  // namespace detent
