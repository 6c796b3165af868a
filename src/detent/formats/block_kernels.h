#pragma once

#include <cstdint>

#include "detent/formats/all.h"
#include "detent/formats/block_layout.h"
#include "detent/formats/codes/all.h"
#include "detent/formats/first_index.h"

namespace detent {

/// What is written for each element: the value of its block's format, or 1 where it was held without
/// saturating, else 0.
enum class BlockOutput { kValue, kUnsaturated };

/// Rounds the blocks of the units [begin, end). `input` and `output` point to element 0 and may be equal.
/// `stream` asks for writing past the caches, which is done where rows and blocks are whole vectors. The
/// caller holds a DefaultFloatEnvironment. A block of a unit is one thread's work, however large it is.
void round_blocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                  const float* input, float* output, int64_t begin, int64_t end, bool stream);

/// Where the codes of blocks go, and what they are.
struct BlockCodeOutput {
  const GroupCoders& coders;  // one, of the elements
  const BlockScales& scales;
  int width;             // bits of an element's code
  bool twos_complement;  // else sign and magnitude
  bool nan_allowed;      // else NaN are reported, and leave the codes unfinished
  uint8_t* scale_codes;  // by number of block
  FirstIndex& nan;
};

/// The codes of the elements that `scales` turns into the values of round_blocks. `codes` points to where
/// that of element `first` belongs.
void code_blocks(const GroupParameters& parameters, const BlockLayout& layout, const BlockCodeOutput& output,
                 const float* input, uint32_t* codes, int64_t first, int64_t begin, int64_t end);

}  // namespace detent
