#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "detent/formats/quant_spec.h"

namespace detent {

/// Temperature of the attention of differentiable k-means, in squared mean gaps of the codebook.
constexpr double kCodebookTemperature = 0.02;

/// Differentiable k-means (Cho et al. 2022, arXiv:2108.12659) of a training: with d the squared distances of
/// an element from the values c of the codebook, sum softmax(-d / temperature) c, which is nearly the nearest
/// of them. The gradient of `codebook` is that of this sum, that of `input` passes straight through.
at::Tensor round_to_codebook(const at::Tensor& input, const at::Tensor& codebook);

/// Rounds to a minifloat whose exponent bias is trained. The scale 2^-bias has the gradient of LSQ, code - v
/// where v does not saturate, divided by sqrt(elements) as there; the bias that of its power.
at::Tensor round_with_exponent_bias(const at::Tensor& input, const QuantSpec& spec, const at::Tensor& bias,
                                    int64_t samples);

}  // namespace detent
