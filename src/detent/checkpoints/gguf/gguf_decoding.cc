#include "detent/checkpoints/gguf/gguf_format.h"
#include "detent/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/checkpoints/gguf/gguf_decoding.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/checkpoints/gguf/grid_blocks-inl.h"
#include "detent/checkpoints/gguf/k_blocks-inl.h"
#include "detent/checkpoints/gguf/small_blocks-inl.h"

// Plain C++: the compiler vectorises the loops with the instructions of each target.
HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// `decode` of one block after the other.
template <class Decode>
HWY_INLINE void ForBlocks(const GgufFormat& format, const uint8_t* blocks, size_t count, float* values,
                          const Decode& decode) {
  for (size_t i = 0; i < count; ++i) decode(blocks + i * format.bytes, values + i * format.elements);
}

#define DETENT_DECODE(id, Name)                                                         \
  case id:                                                                              \
    ForBlocks(format, blocks, count, values,                                            \
              [](const uint8_t* block, float* y) HWY_ATTR { Decode##Name(block, y); }); \
    return true

bool DecodeGgufBlocks(const GgufFormat& format, const uint8_t* blocks, size_t count, float* values) {
  switch (format.id) {
    DETENT_DECODE(2, Q4_0);
    DETENT_DECODE(3, Q4_1);
    DETENT_DECODE(6, Q5_0);
    DETENT_DECODE(7, Q5_1);
    DETENT_DECODE(8, Q8_0);
    DETENT_DECODE(9, Q8_1);
    DETENT_DECODE(10, Q2_K);
    DETENT_DECODE(11, Q3_K);
    DETENT_DECODE(12, Q4_K);
    DETENT_DECODE(13, Q5_K);
    DETENT_DECODE(14, Q6_K);
    DETENT_DECODE(15, Q8_K);
    DETENT_DECODE(16, IQ2_XXS);
    DETENT_DECODE(17, IQ2_XS);
    DETENT_DECODE(18, IQ3_XXS);
    DETENT_DECODE(19, IQ1_S);
    DETENT_DECODE(20, IQ4_NL);
    DETENT_DECODE(21, IQ3_S);
    DETENT_DECODE(22, IQ2_S);
    DETENT_DECODE(23, IQ4_XS);
    DETENT_DECODE(29, IQ1_M);
    DETENT_DECODE(34, TQ1_0);
    DETENT_DECODE(35, TQ2_0);
    DETENT_DECODE(39, MXFP4);
    DETENT_DECODE(40, NVFP4);
    DETENT_DECODE(41, Q1_0);
    DETENT_DECODE(42, Q2_0);
    default:
      return false;
  }
}
#undef DETENT_DECODE

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(DecodeGgufBlocks);

void decode_gguf_blocks(const GgufFormat& format, std::span<const std::byte> blocks,
                        std::span<float> values) {
  const size_t count = values.size() / format.elements;
  DETENT_CHECK(count * format.elements == values.size() && count * format.bytes == blocks.size(),
               "{} bytes of {} for {} values", blocks.size(), format.name, values.size());
  const auto* bytes = reinterpret_cast<const uint8_t*>(blocks.data());
  const bool decoded = HWY_DYNAMIC_DISPATCH(DecodeGgufBlocks)(format, bytes, count, values.data());
  DETENT_CHECK(decoded, "{} are plain numbers", format.name);
}

}  // namespace detent
#endif
