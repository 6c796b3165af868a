// Blocks of 256 elements that index points of grids: IQ1_S to IQ3_S. Included once for each instruction set.
#if defined(DETENT_IO_GGUF_GRID_BLOCKS_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_IO_GGUF_GRID_BLOCKS_
#undef DETENT_IO_GGUF_GRID_BLOCKS_
#else
#define DETENT_IO_GGUF_GRID_BLOCKS_
#endif

#include "detent/checkpoints/gguf/block_bytes-inl.h"
#include "detent/checkpoints/gguf/gguf_format.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Seven signs; the eighth makes the number of minuses even.
HWY_INLINE uint32_t EvenSigns(uint32_t seven) {
  return seven | (static_cast<uint32_t>(std::popcount(seven)) & 1U) << 7;
}

/// Eight magnitudes, negated where a bit of `signs` is set, times `scale`.
HWY_INLINE void StoreSigned(uint64_t magnitudes, uint32_t signs, float scale, float* y) {
  uint8_t bytes[8];
  std::memcpy(bytes, &magnitudes, sizeof(bytes));
  for (int j = 0; j < 8; ++j) {
    const float value = scale * static_cast<float>(bytes[j]);
    y[j] = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ (signs >> j & 1) << 31);
  }
}

HWY_INLINE uint64_t Joined(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

/// d, for each 32 elements four indices of 8 bits, four times seven signs and a scale of 4 bits.
HWY_INLINE void DecodeIQ2_XXS(const uint8_t* block, float* y) {
  const GridPoints& grids = grid_points();
  const float d = HalfAt(block);
  for (int part = 0; part < 8; ++part) {
    const uint8_t* index = block + 2 + int64_t{8} * part;
    const auto signs = NumberAt<uint32_t>(index + 4);
    const float scale = d * (0.5F + static_cast<float>(signs >> 28)) * 0.25F;
    for (int l = 0; l < 4; ++l, y += 8) {
      StoreSigned(grids.iq2_xxs[index[l]], EvenSigns(signs >> 7 * l & 127), scale, y);
    }
  }
}

/// A scale of 4 bits of 16 elements.
HWY_INLINE float QuarterScale(float d, int code) {
  return d * (0.5F + static_cast<float>(code & 15)) * 0.25F;
}

/// d, 32 words of an index of 9 bits and seven signs, eight bytes of two scales.
HWY_INLINE void DecodeIQ2_XS(const uint8_t* block, float* y) {
  const GridPoints& grids = grid_points();
  const float d = HalfAt(block);
  for (int point = 0; point < 32; ++point, y += 8) {
    const uint32_t code = NumberAt<uint16_t>(block + 2 + int64_t{2} * point);
    const float scale = QuarterScale(d, block[66 + point / 4] >> 4 * (point / 2 % 2));
    StoreSigned(grids.iq2_xs[code & 511], EvenSigns(code >> 9), scale, y);
  }
}

/// d, 32 lower bytes of indices, 32 bytes of signs, eight of upper bits of indices, eight of two scales.
HWY_INLINE void DecodeIQ2_S(const uint8_t* block, float* y) {
  const GridPoints& grids = grid_points();
  const float d = HalfAt(block);
  for (int point = 0; point < 32; ++point, y += 8) {
    const uint32_t high = block[66 + point / 4] >> 2 * (point % 4) & 3U;
    const float scale = QuarterScale(d, block[74 + point / 4] >> 4 * (point / 2 % 2));
    StoreSigned(grids.iq2_s[block[2 + point] | high << 8], block[34 + point], scale, y);
  }
}

/// d, 64 indices of 8 bits, for each 32 elements four times seven signs and a scale of 4 bits.
HWY_INLINE void DecodeIQ3_XXS(const uint8_t* block, float* y) {
  const GridPoints& grids = grid_points();
  const float d = HalfAt(block);
  for (int part = 0; part < 8; ++part) {
    const auto signs = NumberAt<uint32_t>(block + 66 + int64_t{4} * part);
    const float scale = d * (0.5F + static_cast<float>(signs >> 28)) * 0.5F;
    for (int l = 0; l < 4; ++l, y += 8) {
      const uint8_t* index = block + 2 + int64_t{8} * part + int64_t{2} * l;
      const uint64_t magnitudes = Joined(grids.iq3_xxs[index[0]], grids.iq3_xxs[index[1]]);
      StoreSigned(magnitudes, EvenSigns(signs >> 7 * l & 127), scale, y);
    }
  }
}

/// d, 64 lower bytes of indices, eight bytes of ninth bits, 32 of signs, four of two scales.
HWY_INLINE void DecodeIQ3_S(const uint8_t* block, float* y) {
  const GridPoints& grids = grid_points();
  const float d = HalfAt(block);
  for (int point = 0; point < 32; ++point, y += 8) {
    const uint8_t* index = block + 2 + int64_t{2} * point;
    const uint32_t high = block[66 + point / 4] >> 2 * (point % 4);
    const int code = block[106 + point / 8] >> 4 * (point / 4 % 2) & 15;
    const float scale = d * static_cast<float>(1 + 2 * code);
    const uint32_t first = grids.iq3_s[index[0] | (high & 1) << 8];
    const uint32_t second = grids.iq3_s[index[1] | (high >> 1 & 1) << 8];
    StoreSigned(Joined(first, second), block[74 + point], scale, y);
  }
}

/// scale * (x + delta) of the coordinates -1, 0, 1.
HWY_INLINE void StoreShifted(uint64_t coordinates, bool down, float scale, float* y) {
  constexpr float kDelta = 0.125F;
  int8_t bytes[8];
  std::memcpy(bytes, &coordinates, sizeof(bytes));
  const float delta = down ? -kDelta : kDelta;
  for (int j = 0; j < 8; ++j) y[j] = scale * (static_cast<float>(bytes[j]) + delta);
}

/// d, 32 lower bytes of indices, eight words of four times three upper bits, a scale of 3 bits and the
/// shift's sign.
HWY_INLINE void DecodeIQ1_S(const uint8_t* block, float* y) {
  const GridPoints& grids = grid_points();
  const float d = HalfAt(block);
  for (int point = 0; point < 32; ++point, y += 8) {
    const uint32_t word = NumberAt<uint16_t>(block + 34 + int64_t{2} * (point / 4));
    const float scale = d * static_cast<float>(2 * (word >> 12 & 7) + 1);
    const uint32_t high = word >> 3 * (point % 4) & 7;
    StoreShifted(grids.iq1[block[2 + point] | high << 8], (word & 0x8000) != 0, scale, y);
  }
}

/// 32 lower bytes of indices, 16 of two times three upper bits and the shift's sign, four words of four
/// scales of 3 bits. The upper halves of bytes that these leave are d.
HWY_INLINE void DecodeIQ1_M(const uint8_t* block, float* y) {
  const GridPoints& grids = grid_points();
  uint32_t words[4];
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) {
    words[i] = NumberAt<uint16_t>(block + 48 + int64_t{2} * i);
    bits |= words[i] >> 12 << 4 * i;
  }
  const float d = HalfOfBits(bits);
  for (int point = 0; point < 32; ++point, y += 8) {
    const uint32_t high = block[32 + point / 2] >> 4 * (point % 2);
    const uint32_t code = words[point / 8] >> 3 * (point / 2 % 4) & 7;
    const float scale = d * static_cast<float>(2 * code + 1);
    StoreShifted(grids.iq1[block[point] | (high & 7) << 8], (high & 8) != 0, scale, y);
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
