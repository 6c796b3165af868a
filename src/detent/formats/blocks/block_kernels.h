#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <variant>

#include "detent/formats/blocks/block_layout.h"
#include "detent/formats/format.h"

namespace detent {

/// The least of the indices that threads report.
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

/// Output for each element: the value of its block's format, or 1 where it was held without saturating, else
/// 0.
enum class BlockOutput { kValue, kUnsaturated };

/// Rounds the blocks of the units [begin, end). `input` and `output` point to element 0 and may be equal.
/// `stream` asks for writing past the caches, which is done where rows and blocks are whole vectors. The
/// caller holds a DefaultFloatEnvironment. A block of a unit is one thread's work, however large it is.
void round_blocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                  const float* input, float* output, int64_t begin, int64_t end, bool stream);

/// How the elements of blocks stand in their codes: what is needed to handle many at once.
struct ElementLayout {
  int width = 0;
  /// Two's complement: a multiple of 2^min_exponent. Else a sign, and the number of a magnitude among those
  /// of a minifloat (MinifloatGrid), counted from `first`.
  bool twos_complement = false;
  int mantissa_bits = 0;
  int min_exponent = 0;
  int first = 0;
  /// The last number. Behind it are an infinity where the mantissa is 0, and NaN.
  int32_t largest = std::numeric_limits<int32_t>::max();
  /// Whether float32 has all the normal magnitudes as normal ones, and the one before them too.
  bool normal = true;
};

/// Where the codes of blocks go, and what they are.
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

/// Whether value_blocks takes PackedCodes of this width: where rows and blocks are whole vectors, and the
/// elements narrow.
bool takes_packed_codes(const BlockLayout& layout, int width, const float* values);

/// The inverse of code_blocks, for the units [begin, end). `values` points to element 0. `stream` asks for
/// writing past the caches, which is done where rows and blocks are whole vectors. The caller holds a
/// DefaultFloatEnvironment.
void value_blocks(const BlockLayout& layout, const BlockCodeInput& input, const ElementCodes& codes,
                  float* values, int64_t begin, int64_t end, bool stream);

/// Address of the element `count` after `from`, to be fetched ahead: it may lie after the array, where
/// arithmetic on pointers may not go.
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

/// Writes the codes of `input`'s elements, and of the blocks' scales in order. NaN that have no code are
/// reported and leave the streams unfinished.
void encode_blocks(const BlockCodec& codec, const GroupParameters& parameters, const Tensor& input,
                   uint8_t* codes, uint8_t* scale_codes, FirstIndex& nan);

/// The inverse. Throws Error that names the first scale code that is none.
void decode_blocks(const BlockCodec& codec, const uint8_t* codes, const uint8_t* scale_codes, Tensor& output);

}  // namespace detent
