// Blocks of 256 elements whose parts have scales (and what is taken off) of 4 to 8 bits: Q2_K to Q6_K.
// Included once for each instruction set.
#if defined(DETENT_IO_GGUF_K_BLOCKS_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_IO_GGUF_K_BLOCKS_
#undef DETENT_IO_GGUF_K_BLOCKS_
#else
#define DETENT_IO_GGUF_K_BLOCKS_
#endif

#include "detent/checkpoints/gguf/block_bytes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// 16 bytes of a scale (lower half) and what is taken off, 64 bytes of four pairs of bits, d, dmin.
HWY_INLINE void DecodeQ2_K(const uint8_t* block, float* y) {
  const float d = HalfAt(block + 80);
  const float dmin = HalfAt(block + 82);
  for (int part = 0; part < 16; ++part, y += 16) {
    const float scale = d * static_cast<float>(block[part] & 15);
    const float least = dmin * static_cast<float>(block[part] >> 4);
    const uint8_t* q = block + 16 + int64_t{32} * (part / 8) + int64_t{16} * (part % 2);
    const int shift = 2 * (part / 2 % 4);
    for (int l = 0; l < 16; ++l) y[l] = scale * static_cast<float>(q[l] >> shift & 3) - least;
  }
}

/// 32 bytes of third bits, 64 bytes of four pairs of bits, 16 scales of 6 bits in 12 bytes, d.
HWY_INLINE void DecodeQ3_K(const uint8_t* block, float* y) {
  const float d = HalfAt(block + 108);
  const uint8_t* scales = block + 96;
  for (int part = 0; part < 16; ++part, y += 16) {
    const int low = scales[part % 8] >> 4 * (part / 8) & 15;
    const int high = scales[8 + part % 4] >> 2 * (part / 4) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    const uint8_t* q = block + 32 + int64_t{32} * (part / 8) + int64_t{16} * (part % 2);
    const uint8_t* third = block + int64_t{16} * (part % 2);
    const int shift = 2 * (part / 2 % 4);
    const int bit = part / 2;
    for (int l = 0; l < 16; ++l) {
      y[l] = scale * static_cast<float>((q[l] >> shift & 3) + (third[l] >> bit & 1) * 4 - 4);
    }
  }
}

/// Scale and what is taken off of one of eight parts, in 12 bytes: 6 bits each of the first four, of the
/// others the lower 4, whose upper 2 are the upper bits of the first.
struct ScaleAndLeast {
  int scale;
  int least;
};
HWY_INLINE ScaleAndLeast PackedScale(const uint8_t* packed, int part) {
  if (part < 4) return {packed[part] & 63, packed[part + 4] & 63};
  return {(packed[part + 4] & 15) | packed[part - 4] >> 6 << 4,
          packed[part + 4] >> 4 | packed[part] >> 6 << 4};
}

/// d, dmin, 12 bytes of scales, 128 bytes: 32 of them are two parts, the lower halves and the upper ones.
HWY_INLINE void DecodeQ4_K(const uint8_t* block, float* y) {
  const float d = HalfAt(block);
  const float dmin = HalfAt(block + 2);
  for (int part = 0; part < 8; ++part, y += 32) {
    const ScaleAndLeast packed = PackedScale(block + 4, part);
    const float scale = d * static_cast<float>(packed.scale);
    const float least = dmin * static_cast<float>(packed.least);
    const uint8_t* q = block + 16 + int64_t{32} * (part / 2);
    const int shift = 4 * (part % 2);
    for (int l = 0; l < 32; ++l) y[l] = scale * static_cast<float>(q[l] >> shift & 15) - least;
  }
}

/// The same with 32 bytes of fifth bits, one a part, before the 128 bytes.
HWY_INLINE void DecodeQ5_K(const uint8_t* block, float* y) {
  const float d = HalfAt(block);
  const float dmin = HalfAt(block + 2);
  const uint8_t* fifth = block + 16;
  for (int part = 0; part < 8; ++part, y += 32) {
    const ScaleAndLeast packed = PackedScale(block + 4, part);
    const float scale = d * static_cast<float>(packed.scale);
    const float least = dmin * static_cast<float>(packed.least);
    const uint8_t* q = block + 48 + int64_t{32} * (part / 2);
    const int shift = 4 * (part % 2);
    for (int l = 0; l < 32; ++l) {
      y[l] = scale * static_cast<float>((q[l] >> shift & 15) | (fifth[l] >> part & 1) << 4) - least;
    }
  }
}

/// 128 bytes of lower halves, 64 of four upper pairs of bits, 16 scales of 8 bits, d.
HWY_INLINE void DecodeQ6_K(const uint8_t* block, float* y) {
  const float d = HalfAt(block + 208);
  for (int part = 0; part < 16; ++part, y += 16) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + part]));
    const int quarter = part / 2 % 4;  // of the 128 elements
    const uint8_t* low =
        block + int64_t{64} * (part / 8) + int64_t{32} * (quarter % 2) + int64_t{16} * (part % 2);
    const uint8_t* high = block + 128 + int64_t{32} * (part / 8) + int64_t{16} * (part % 2);
    const int low_shift = 4 * (quarter / 2);
    const int high_shift = 2 * quarter;
    for (int l = 0; l < 16; ++l) {
      const int code = (low[l] >> low_shift & 15) | (high[l] >> high_shift & 3) << 4;
      y[l] = scale * static_cast<float>(code - 32);
    }
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
