#pragma once

#include <cstdint>
#include <span>

#include "detent/engine/kernels/kernel_set.h"

namespace detent {

/// The fastest packing for weights from `least` to `most` of a layer.
WeightPacking fastest_packing(int32_t least, int32_t most, int64_t outputs, int64_t inputs);

/// Weights of packing_shape(packing).steps steps of `count` bytes each, into as many vectors as they take.
void narrow(WeightPacking packing, const int8_t* weights, int64_t count, int8_t* packed);
/// The weight of one step, at `position` of `count`.
int32_t widened(WeightPacking packing, const int8_t* packed, int64_t count, int step, int64_t position);

}  // namespace detent
