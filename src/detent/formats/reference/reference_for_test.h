#pragma once

#include <cstdint>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// Oracle of `fake_quantize`, element by element from the definitions, in double arithmetic and without
/// vectors. For tests; slow. Parameters that the data give come from derive_parameters, as they do for the
/// kernels. Needs the default floating-point environment.
Tensor reference_fake_quantize(const QuantSpec& spec, const Tensor& input, uint64_t seed = 0);

/// The same for block formats, where the maximum of each block comes from its definition too.
Tensor reference_blocks(const QuantSpec& spec, const Tensor& input);

/// Fixed point by its definition.
float reference_fixed(const Fixed& format, float x);
/// Any minifloat by its definition.
float reference_minifloat(const MinifloatGrid& grid, float x);

}  // namespace detent
