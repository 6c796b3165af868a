// Blocks of 32 to 256 elements with one scale, or one for each 16: Q4_0 to Q8_1, Q8_K, Q1_0, Q2_0, ternary
// ones, and floats of 4 bits. d is the scale, m what is added. Included once for each instruction set.
#if defined(DETENT_IO_GGUF_SMALL_BLOCKS_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_IO_GGUF_SMALL_BLOCKS_
#undef DETENT_IO_GGUF_SMALL_BLOCKS_
#else
#define DETENT_IO_GGUF_SMALL_BLOCKS_
#endif

#include "detent/checkpoints/gguf/block_bytes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// d, 16 bytes; the lower halves of these are the first 16 elements.
HWY_INLINE void DecodeQ4_0(const uint8_t* block, float* y) {
  const float d = HalfAt(block);
  const uint8_t* q = block + 2;
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>((q[j] & 15) - 8) * d;
    y[j + 16] = static_cast<float>((q[j] >> 4) - 8) * d;
  }
}

/// d, m, 16 bytes.
HWY_INLINE void DecodeQ4_1(const uint8_t* block, float* y) {
  const float d = HalfAt(block);
  const float m = HalfAt(block + 2);
  const uint8_t* q = block + 4;
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(q[j] & 15) * d + m;
    y[j + 16] = static_cast<float>(q[j] >> 4) * d + m;
  }
}

/// d, the fifth bits of all elements, 16 bytes.
HWY_INLINE void DecodeQ5_0(const uint8_t* block, float* y) {
  const float d = HalfAt(block);
  const auto high = NumberAt<uint32_t>(block + 2);
  const uint8_t* q = block + 6;
  for (int j = 0; j < 16; ++j) {
    const auto low_bit = static_cast<int>(high >> j & 1);
    const auto high_bit = static_cast<int>(high >> (j + 16) & 1);
    y[j] = static_cast<float>(((q[j] & 15) | low_bit << 4) - 16) * d;
    y[j + 16] = static_cast<float>(((q[j] >> 4) | high_bit << 4) - 16) * d;
  }
}

/// d, m, the fifth bits, 16 bytes.
HWY_INLINE void DecodeQ5_1(const uint8_t* block, float* y) {
  const float d = HalfAt(block);
  const float m = HalfAt(block + 2);
  const auto high = NumberAt<uint32_t>(block + 4);
  const uint8_t* q = block + 8;
  for (int j = 0; j < 16; ++j) {
    const auto low_bit = static_cast<int>(high >> j & 1);
    const auto high_bit = static_cast<int>(high >> (j + 16) & 1);
    y[j] = static_cast<float>((q[j] & 15) | low_bit << 4) * d + m;
    y[j + 16] = static_cast<float>((q[j] >> 4) | high_bit << 4) * d + m;
  }
}

template <int kCount>
HWY_INLINE void DecodeSignedBytes(const uint8_t* q, float d, float* y) {
  for (int j = 0; j < kCount; ++j) y[j] = static_cast<float>(static_cast<int8_t>(q[j])) * d;
}

/// d, 32 bytes.
HWY_INLINE void DecodeQ8_0(const uint8_t* block, float* y) {
  DecodeSignedBytes<32>(block + 2, HalfAt(block), y);
}

/// d, d times the sum of the elements, 32 bytes. ggml itself has it for activations only.
HWY_INLINE void DecodeQ8_1(const uint8_t* block, float* y) {
  DecodeSignedBytes<32>(block + 4, HalfAt(block), y);
}

/// d as a float32, 256 bytes, sums of each 16 that nothing here needs.
HWY_INLINE void DecodeQ8_K(const uint8_t* block, float* y) {
  DecodeSignedBytes<256>(block + 4, NumberAt<float>(block), y);
}

/// d, a sign a bit.
HWY_INLINE void DecodeQ1_0(const uint8_t* block, float* y) {
  const float d = HalfAt(block);
  const uint8_t* q = block + 2;
  for (int byte = 0; byte < 16; ++byte) {
    for (int bit = 0; bit < 8; ++bit) y[8 * byte + bit] = (q[byte] >> bit & 1) != 0 ? d : -d;
  }
}

/// d, neighbours in the pairs of bits of a byte; 0 is -1.
HWY_INLINE void DecodeQ2_0(const uint8_t* block, float* y) {
  const float d = HalfAt(block);
  const uint8_t* q = block + 2;
  for (int byte = 0; byte < 16; ++byte) {
    for (int pair = 0; pair < 4; ++pair) {
      y[4 * byte + pair] = static_cast<float>((q[byte] >> 2 * pair & 3) - 1) * d;
    }
  }
}

/// kRows * kBytes digits of base 3: digit n of byte m is element n * kBytes + m. A byte is a fraction of 256,
/// of which the first digit after the point comes out on top of a product with 3.
template <int kBytes, int kRows>
HWY_INLINE void DecodeDigits(const uint8_t* q, float d, float* y) {
  uint32_t power = 1;
  for (int n = 0; n < kRows; ++n, power *= 3) {
    for (int m = 0; m < kBytes; ++m) {
      const uint32_t fraction = (q[m] * power) & 255;
      y[n * kBytes + m] = static_cast<float>(static_cast<int>(fraction * 3 >> 8) - 1) * d;
    }
  }
}

/// 48 bytes of five digits, 4 of four, d.
HWY_INLINE void DecodeTQ1_0(const uint8_t* block, float* y) {
  const float d = HalfAt(block + 52);
  DecodeDigits<32, 5>(block, d, y);
  DecodeDigits<16, 5>(block + 32, d, y + 160);
  DecodeDigits<4, 4>(block + 48, d, y + 240);
}

/// 64 bytes of four pairs of bits, d. A pair of bits of 32 neighbouring bytes is 32 neighbouring elements.
HWY_INLINE void DecodeTQ2_0(const uint8_t* block, float* y) {
  const float d = HalfAt(block + 64);
  for (int half = 0; half < 2; ++half) {
    for (int pair = 0; pair < 4; ++pair, y += 32) {
      const uint8_t* q = block + int64_t{32} * half;
      for (int m = 0; m < 32; ++m) y[m] = static_cast<float>((q[m] >> 2 * pair & 3) - 1) * d;
    }
  }
}

/// Twice the value of each code of e2m1.
alignas(16) constexpr int8_t kDoubledE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <int kHalf>
HWY_INLINE void DecodeFloats4(const uint8_t* q, const int8_t* table, float d, float* y) {
  for (int j = 0; j < kHalf; ++j) {
    y[j] = static_cast<float>(table[q[j] & 15]) * d;
    y[j + kHalf] = static_cast<float>(table[q[j] >> 4]) * d;
  }
}

/// The exponent of a power of two (e8m0), 16 bytes. Halved because the values are doubled; the two least are
/// subnormal.
HWY_INLINE void DecodeMXFP4(const uint8_t* block, float* y) {
  const uint32_t e = block[0];
  const uint32_t half = e < 2 ? 0x00200000U << e : (e - 1) << 23;
  DecodeFloats4<16>(block + 1, kDoubledE2m1, std::bit_cast<float>(half), y);
}

/// Half of an e4m3 without a sign, whose NaN counts as 0.
HWY_INLINE float HalfOfE4m3(uint32_t code) {
  const uint32_t exponent = code >> 3 & 15;
  const auto mantissa = static_cast<float>(code & 7);
  if (code == 0x7F) return 0;
  if (exponent == 0) return mantissa * 0x1p-10F;
  return (8 + mantissa) * std::bit_cast<float>((exponent + 127 - 11) << 23);
}

/// Four scales (e4m3), 8 bytes for each.
HWY_INLINE void DecodeNVFP4(const uint8_t* block, float* y) {
  for (int part = 0; part < 4; ++part) {
    DecodeFloats4<8>(block + 4 + int64_t{8} * part, kDoubledE2m1, HalfOfE4m3(block[part]),
                     y + int64_t{16} * part);
  }
}

/// The codebook of IQ4_NL and IQ4_XS, a fact of these formats.
alignas(16) constexpr int8_t kNonlinear4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};

/// d, 16 bytes of codes.
HWY_INLINE void DecodeIQ4_NL(const uint8_t* block, float* y) {
  DecodeFloats4<16>(block + 2, kNonlinear4, HalfAt(block), y);
}

/// d, the upper 2 bits of eight scales, their lower 4, 128 bytes of codes.
HWY_INLINE void DecodeIQ4_XS(const uint8_t* block, float* y) {
  const float d = HalfAt(block);
  const uint32_t high = NumberAt<uint16_t>(block + 2);
  for (int part = 0; part < 8; ++part) {
    const uint32_t low = block[4 + part / 2] >> 4 * (part % 2) & 15U;
    const auto scale = static_cast<int>(low | (high >> 2 * part & 3) << 4) - 32;
    DecodeFloats4<16>(block + 8 + int64_t{16} * part, kNonlinear4, d * static_cast<float>(scale),
                      y + int64_t{32} * part);
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
