#pragma once

#include <cstdint>

#include "detent/formats/block_layout.h"
#include "detent/formats/codes/block_coding.h"

namespace detent {

/// The inverse of round_elements (block_kernels.h), in place, for the units [begin, end): elements become
/// values. `values` points to element 0; all codes are below scales.size(). The caller holds a
/// DefaultFloatEnvironment.
void scale_elements(const BlockLayout& layout, const BlockScales& scales, const uint8_t* scale_codes,
                    float* values, int64_t begin, int64_t end);

}  // namespace detent
