#pragma once

#include "detent/formats/quant_spec.h"

namespace detent {

/// unsaturated_mask(spec, input) into `mask`, float32 of the input's shape, which is not the input.
void unsaturated_mask(const QuantSpec& spec, const Tensor& input, Tensor& mask);

}  // namespace detent
