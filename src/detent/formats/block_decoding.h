#pragma once

#include <cstdint>
#include <variant>

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

/// The codes of elements, from element `first` on.
struct WideCodes {
  const uint32_t* codes;
  int64_t first;
};

/// The stream of bits of all elements.
struct PackedCodes {
  const uint8_t* bytes;
  int64_t size;
};

using ElementCodes = std::variant<WideCodes, PackedCodes>;

/// Whether value_blocks takes PackedCodes: where rows and blocks are whole vectors, and the elements narrow.
bool takes_packed_codes(const BlockLayout& layout, const ElementForm& form, const float* values);

/// The inverse of code_blocks (block_kernels.h), for the units [begin, end). `values` points to element 0.
/// `stream` asks for writing past the caches, which is done where rows and blocks are whole vectors. The
/// caller holds a DefaultFloatEnvironment.
void value_blocks(const BlockLayout& layout, const BlockCodeInput& input, const ElementCodes& codes,
                  float* values, int64_t begin, int64_t end, bool stream);

}  // namespace detent
