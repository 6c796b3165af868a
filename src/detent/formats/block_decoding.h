#pragma once

#include <cstdint>

#include "detent/formats/block_layout.h"
#include "detent/formats/codes/element_form.h"

namespace detent {

/// What the codes of blocks mean.
struct BlockCodeInput {
  const GroupCoders& coders;  // one, of the elements
  const ElementForm& form;    // of the same
  const BlockScales& scales;
  const uint8_t* scale_codes;  // by number of block; all below scales.size()
};

/// The inverse of code_blocks (block_kernels.h), for the units [begin, end). `codes` points to that of
/// element `first`, `values` to element 0. `stream` asks for writing past the caches, which is done where
/// rows and blocks are whole vectors. The caller holds a DefaultFloatEnvironment.
void value_blocks(const BlockLayout& layout, const BlockCodeInput& input, const uint32_t* codes,
                  int64_t first, float* values, int64_t begin, int64_t end, bool stream);

}  // namespace detent
