#pragma once

#include <cstdint>

#include "detent/formats/block_layout.h"
#include "detent/formats/codes/block_coding.h"

namespace detent {

/// For the units [begin, end), the values of elements whose codes code_blocks (block_kernels.h) gives.
/// `elements` points to element `first`, `values` to element 0; all scale codes are below scales.size().
/// `elements` may be `values`, with first = 0. `stream` asks for writing past the caches, which is done where
/// rows and blocks are whole vectors. The caller holds a DefaultFloatEnvironment.
void scale_elements(const BlockLayout& layout, const BlockScales& scales, const uint8_t* scale_codes,
                    const float* elements, int64_t first, float* values, int64_t begin, int64_t end,
                    bool stream);

}  // namespace detent
