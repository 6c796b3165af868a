#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/formats/rounding.h"

namespace detent {

// Learned step sizes (Esser et al. 2019, arXiv:1902.08153): the value of x is s * q(x / s), where q rounds to
// the codes of the format (its values with scale 1) and s > 0 is trained, one a tensor, a channel or a group.
// Its gradient is q(x / s) - x / s where the format does not saturate (clipped_ste_mask: up to half a step
// beyond the outermost code, where the paper stops at the code itself), the outermost code elsewhere.

/// Spec that rounds x / s to codes for a learned scale: its scale is 1.
QuantSpec code_spec(const QuantSpec& spec);
/// Q_P of the paper.
double largest_code(const QuantSpec& spec);
/// [], [channels] or [groups]. Throws Error on an axis that `shape` does not have.
Shape scale_shape(const QuantSpec& spec, const Shape& shape);

/// Throws Error on a scale that is not above 0, or not finite.
void check_learned_scale(std::span<const float> scale);
/// s * q(x / s) of `input` after training, where no other format has these values
/// (formats/groups/given_parameters.h). `round_up`: of Rounding::kLearned, of the input's shape. `seed` as in
/// fake_quantize.
Tensor fake_quantize_scaled(const QuantSpec& spec, const Tensor& scale, Rounding rounding,
                            const Tensor* round_up, const Tensor& input, uint64_t seed);

/// Initial scale for a known tensor: 2 * mean |x| / sqrt(Q_P) per group; if all elements are 0, the format's
/// own scale, or 1 if that depends on the data. Throws Error, beginning with `where`, if the format has
/// another number of scales.
Tensor initial_scale(const QuantSpec& spec, const Tensor& values, const std::string& where);
/// The same for a tensor of `shape` of which the mean |x| of each group is known (LSQ takes it from the first
/// batch). Throws Error, beginning with `where`, on another number of them.
Tensor initial_scale(const QuantSpec& spec, const Shape& shape, std::span<const double> mean_magnitudes,
                     const std::string& where);
/// Initial scale for an unknown tensor of `shape`: the format's own. Throws Error, beginning with `where`, if
/// that depends on the data.
Tensor initial_scale(const QuantSpec& spec, const Shape& shape, const std::string& where);

}  // namespace detent
