#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace detent {

/// Signs of the residual binarization of x with `gamma` [levels], as the format binary_residual has them:
/// [levels, ...], -1 or 1. Each has the gradient 1 / sum(gamma) where |x| is at most that sum, so that
/// sum_l gamma_l b_l passes gradients straight through.
at::Tensor residual_signs(const at::Tensor& x, const at::Tensor& gamma);

/// 1 where x >= 0, else -1; the gradient passes where |x| is at most 1.
at::Tensor table_signs(const at::Tensor& x);

/// For columns m, outputs o and sums s, with l = s / (sums / levels):
///
///     result[s, o, m] = sum_t values[o, t, s, sum_k digit(signs[l, inputs[o, t, k], m]) base^k]
///
/// signs [levels, elements, columns] are -1 and 1, whose digits are 0 and 1 (base 2), or -1, 0 and 1 with the
/// digits 0 to 2 (base 3); `inputs` int64 [outputs, tables, fan_in]; tables whose first input is -1 are
/// missing. Where the values are those of a polynomial that is linear in each sign, as that of Lagrange, so
/// are the gradients: that of a sign is half of what the polynomial gains from -1 to 1.
at::Tensor table_sums(const at::Tensor& signs, const at::Tensor& inputs, const at::Tensor& values,
                      int64_t base);

}  // namespace detent
