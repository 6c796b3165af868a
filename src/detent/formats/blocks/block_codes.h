#pragma once

#include <cstdint>

#include "detent/formats/blocks/block_kernels.h"
#include "detent/formats/blocks/block_layout.h"
#include "detent/formats/format.h"
#include "detent/formats/packing/first_index.h"

namespace detent {

/// What encoding and decoding the blocks of one tensor need, beside the data. The caller holds a
/// DefaultFloatEnvironment.
struct BlockCodec {
  BlockLayout layout;
  GroupParameters elements = {};  // of one group
  ElementLayout element_layout = {};
  BlockScales scales = {};
  int scale_width = 0;  // bits of a scale's code, at most 8
  bool has_nan_code = false;
};

/// For a block format; `numbers` are those of its streams.
BlockCodec block_codec(const Format& format, const BlockLayout& layout, const double* numbers);

/// Writes the codes of `input`'s elements, and of the blocks' scales in order. NaN that have no code are
/// reported and leave the streams unfinished.
void encode_blocks(const BlockCodec& codec, const GroupParameters& parameters, const Tensor& input,
                   uint8_t* codes, uint8_t* scale_codes, FirstIndex& nan);

/// The inverse. Throws Error that names the first scale code that is none.
void decode_blocks(const BlockCodec& codec, const uint8_t* codes, const uint8_t* scale_codes, Tensor& output);

}  // namespace detent
