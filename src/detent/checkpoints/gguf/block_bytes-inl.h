// Numbers in the blocks of GGUF files. Included once for each instruction set.
#if defined(DETENT_IO_GGUF_BLOCK_BYTES_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_IO_GGUF_BLOCK_BYTES_
#undef DETENT_IO_GGUF_BLOCK_BYTES_
#else
#define DETENT_IO_GGUF_BLOCK_BYTES_
#endif

#include <bit>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// The number at `from`, which need not be aligned.
template <class T>
HWY_INLINE T NumberAt(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// A binary16. Its exponent is moved to that of float32 by a product with 2^112, which is exact for
/// subnormals too.
HWY_INLINE float HalfOfBits(uint32_t bits) {
  constexpr float kBiasChange = 0x1p112F;
  constexpr uint32_t kInfinity = 0x7C00;
  const uint32_t magnitude = bits & 0x7FFF;
  const uint32_t wide = magnitude >= kInfinity
                            ? 0x7F800000U | magnitude << 13
                            : std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * kBiasChange);
  return std::bit_cast<float>(wide | (bits & 0x8000) << 16);
}

HWY_INLINE float HalfAt(const uint8_t* from) { return HalfOfBits(NumberAt<uint16_t>(from)); }

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
