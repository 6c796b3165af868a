#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <variant>

#include "detent/formats/blocks/block_layout.h"
#include "detent/formats/format.h"

namespace detent {

/// The minimum of indices reported by threads.
class FirstIndex {
 public:
  void report(int64_t index) {
    int64_t seen = least_.load();
    while (index < seen && !least_.compare_exchange_weak(seen, index)) {
    }
  }

  bool found() const { return least_ != kNone; }
  int64_t get() const { return least_; }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> least_ = kNone;
};

/// Output per element: its value, or 1 if it did not saturate, else 0.
enum class BlockOutput { kValue, kUnsaturated };

/// Rounds the blocks of the units [begin, end). `input` and `output` point to element 0 and may be equal.
/// `stream` asks for writing past the caches, which is done where rows and blocks are whole vectors. The
/// caller holds a DefaultFloatEnvironment. A block of a unit is one thread's work, however large it is.
void round_blocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                  const float* input, float* output, int64_t begin, int64_t end, bool stream);

/// Encoding of block elements, for bulk conversion.
struct ElementLayout {
  int width = 0;
  /// Two's complement: a multiple of 2^min_exponent. Else a sign, and the number of a magnitude among those
  /// of a minifloat (MinifloatGrid), counted from `first`.
  bool twos_complement = false;
  int mantissa_bits = 0;
  int min_exponent = 0;
  int first = 0;
  /// The last number. An infinity (mantissa 0) and NaN follow.
  int32_t largest = std::numeric_limits<int32_t>::max();
  /// Whether float32 has all the normal magnitudes as normal ones, and the one before them too.
  bool normal = true;
};

/// Destination of block codes and their format.
struct BlockCodeOutput {
  const GroupParameters& elements;  // of one group
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

/// Meaning of the codes of blocks.
struct BlockCodeInput {
  const GroupParameters& elements;  // of one group
  const ElementLayout& layout;      // of the same
  const BlockScales& scales;
  const uint8_t* scale_codes;  // by number of block; all below scales.size()
};

/// The codes of elements, from element `first` on.
struct UnpackedCodes {
  const uint32_t* codes;
  int64_t first;
};

/// The stream of bits of all elements.
struct PackedCodes {
  const uint8_t* bytes;
  int64_t size;
};

using ElementCodes = std::variant<UnpackedCodes, PackedCodes>;

/// Whether value_blocks accepts PackedCodes of this width: rows and blocks are whole vectors, and elements
/// narrow.
bool takes_packed_codes(const BlockLayout& layout, int width, const float* values);

/// The inverse of code_blocks, for the units [begin, end). `values` points to element 0. `stream` asks for
/// writing past the caches, which is done where rows and blocks are whole vectors. The caller holds a
/// DefaultFloatEnvironment.
void value_blocks(const BlockLayout& layout, const BlockCodeInput& input, const ElementCodes& codes,
                  float* values, int64_t begin, int64_t end, bool stream);

/// Prefetch address `count` elements after `from`, which may lie beyond the array, where pointer arithmetic
/// is undefined.
template <class T>
const T* address_after(const T* from, size_t count) {
  return reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(from) + count * sizeof(T));
}

/// Encoder and decoder of the blocks of one tensor, without the data. The caller holds a
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

/// Writes the codes of `input` and of the block scales in order. NaN without a code is reported and leaves
/// the streams unfinished.
void encode_blocks(const BlockCodec& codec, const GroupParameters& parameters, const Tensor& input,
                   uint8_t* codes, uint8_t* scale_codes, FirstIndex& nan);

/// The inverse. Throws Error that names the first invalid scale code.
void decode_blocks(const BlockCodec& codec, const uint8_t* codes, const uint8_t* scale_codes, Tensor& output);

}  // namespace detent
