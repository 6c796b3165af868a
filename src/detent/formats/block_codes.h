#pragma once

#include <cstdint>

#include "detent/formats/block_layout.h"
#include "detent/formats/codes/element_form.h"
#include "detent/formats/first_index.h"

namespace detent {

/// What encoding and decoding the blocks of one tensor need, beside the data. `coders` holds one, of the
/// elements. The caller holds a DefaultFloatEnvironment.
struct BlockCodec {
  const BlockLayout& layout;
  const GroupCoders& coders;
  BlockScales scales = {};
  ElementForm form = {};
  int scale_width = 0;  // bits of a scale's code, at most 8
};

/// Writes the codes of `input`'s elements, and of the blocks' scales in order. NaN that have no code are
/// reported and leave the streams unfinished.
void encode_blocks(const BlockCodec& codec, const GroupParameters& parameters, const Tensor& input,
                   bool nan_allowed, uint8_t* codes, uint8_t* scale_codes, FirstIndex& nan);

/// The inverse. Throws Error that names the first scale code that is none.
void decode_blocks(const BlockCodec& codec, const uint8_t* codes, const uint8_t* scale_codes, Tensor& output);

}  // namespace detent
