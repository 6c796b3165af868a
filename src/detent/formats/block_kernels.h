#pragma once

#include <cstdint>

#include "detent/formats/all.h"
#include "detent/formats/block_layout.h"
#include "detent/formats/codes/block_coding.h"

namespace detent {

/// What is written for each element: the value of its block's format, or 1 where it was held without
/// saturating, else 0.
enum class BlockOutput { kValue, kUnsaturated };

/// Rounds the blocks of the units [begin, end). `input` and `output` point to element 0 and may be equal.
/// `stream` asks for writing past the caches, which is done where rows and blocks are whole vectors. The
/// caller holds a DefaultFloatEnvironment. A block of a unit is one thread's work, however large it is.
void round_blocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                  const float* input, float* output, int64_t begin, int64_t end, bool stream);

/// As kValue, but writes the elements that `scales` turns into these values, and the codes of the scales by
/// number of block. `output` points to where element `first` belongs.
void round_elements(const GroupParameters& parameters, const BlockLayout& layout, const BlockScales& scales,
                    const float* input, float* output, int64_t first, uint8_t* scale_codes, int64_t begin,
                    int64_t end);

}  // namespace detent
