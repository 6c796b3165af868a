// Included by target_avx512*.cc: what AVX-512 has with and without VNNI.

struct Common {
#include "detent/engine/kernels/interleave-inl.h"

  static constexpr int64_t kBytes = 64;
  static constexpr int64_t kLanes = 16;
  using V = __m512i;

  static V LoadSums(const int32_t* p) { return _mm512_loadu_si512(p); }
  static void StoreSums(V v, int32_t* p) { _mm512_storeu_si512(p, v); }
  static V LoadBytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static V Four(const uint8_t* p) {
    int32_t four;
    std::memcpy(&four, p, sizeof(four));
    return _mm512_set1_epi32(four);
  }
  static V Sum(V a, V b) { return _mm512_add_epi32(a, b); }
  static V SumOfPairs(V a, V b) { return _mm512_add_epi16(a, b); }
  static V Zero() { return _mm512_setzero_si512(); }
  static V Times256(V numbers) { return _mm512_slli_epi32(numbers, 8); }
  /// Shifts 16-bit lanes; bits that come from the neighbouring byte are masked away.
  template <int kBits>
  static V Shifted(V v) {
    if constexpr (kBits == 0)
      return v;
    else if constexpr (kBits > 0)
      return _mm512_slli_epi16(v, kBits);
    else
      return _mm512_srli_epi16(v, -kBits);
  }
  static V Masked(V v, uint8_t mask) { return _mm512_and_si512(v, SameByte(mask)); }
  static V Or(V a, V b) { return _mm512_or_si512(a, b); }
  static V Same(int32_t number) { return _mm512_set1_epi32(number); }
  static V SameByte(uint8_t byte) { return _mm512_set1_epi8(static_cast<int8_t>(byte)); }
  static V Average(V a, V b) { return _mm512_avg_epu8(a, b); }
  static V AddBytes(V a, V b) { return _mm512_add_epi8(a, b); }
  static V LowBytes(V a, V b) { return _mm512_unpacklo_epi8(a, b); }
  static V HighBytes(V a, V b) { return _mm512_unpackhi_epi8(a, b); }
  static V LowPairs(V a, V b) { return _mm512_unpacklo_epi16(a, b); }
  static V HighPairs(V a, V b) { return _mm512_unpackhi_epi16(a, b); }
  static V Rounded(V sums, const float* multiplier, float least, float most, int32_t zero) {
    const __m512 steps = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_loadu_ps(multiplier));
    const __m512 held = _mm512_max_ps(_mm512_min_ps(steps, _mm512_set1_ps(most)), _mm512_set1_ps(least));
    return _mm512_add_epi32(_mm512_cvtps_epi32(held), _mm512_set1_epi32(zero));
  }
  static void StoreValues(V sums, const float* scale, float* to) {
    _mm512_storeu_ps(to, _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_loadu_ps(scale)));
  }
  static void StoreBlock(const V* steps, uint8_t* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(steps[0]));
  }
  /// Shift and mask that cut bytes, in vectors.
  struct Cut {
    explicit Cut(const SumFinish& f)
        : zero(_mm512_set1_epi16(static_cast<int16_t>(f.zero))),
          least(_mm512_set1_epi8(static_cast<int8_t>(static_cast<int32_t>(f.least) + f.zero))),
          most(_mm512_set1_epi8(static_cast<int8_t>(static_cast<int32_t>(f.most) + f.zero))) {}
    V zero, least, most;
  };
  static V StepsOf(V sums, const float* multiplier) {
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_loadu_ps(multiplier)));
  }
  /// Four vectors of steps as bytes: those of 16 bytes of each follow each other.
  static V Packed(V a, V b, V c, V d, const Cut& cut) {
    const V low = _mm512_adds_epi16(_mm512_packs_epi32(a, b), cut.zero);
    const V high = _mm512_adds_epi16(_mm512_packs_epi32(c, d), cut.zero);
    return _mm512_max_epu8(_mm512_min_epu8(_mm512_packus_epi16(low, high), cut.most), cut.least);
  }
  static V InOrder(V packed) {
    const V order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, packed);
  }
  /// AddRun of kBytes.
  static bool AddVector(const QuickAddition& s, const uint8_t* a, const uint8_t* b, uint8_t* result,
                        const Cut& cut) {
    V whole[4];
    __m512 away = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const __m512 steps = _mm512_fmadd_ps(
          Values(a + q * kLanes), _mm512_set1_ps(s.factor_a),
          _mm512_fmadd_ps(Values(b + q * kLanes), _mm512_set1_ps(s.factor_b), _mm512_set1_ps(s.start)));
      whole[q] = _mm512_cvtps_epi32(steps);
      constexpr int kLargerMagnitude = 0b1011;
      away = _mm512_range_ps(away, _mm512_reduce_ps(steps, 0), kLargerMagnitude);
    }
    if (_mm512_cmp_ps_mask(away, _mm512_set1_ps(s.most_away), _CMP_GT_OQ) != 0) return false;
    _mm512_storeu_si512(result, InOrder(Packed(whole[0], whole[1], whole[2], whole[3], cut)));
    return true;
  }
  /// MultiplyRun of kBytes.
  static bool MultiplyVector(const ByteProduct& s, float factor, const uint8_t* a, const uint8_t* b,
                             uint8_t* result, const Cut& cut) {
    const __m512 zero_a = _mm512_set1_ps(static_cast<float>(s.zero_a));
    const __m512 zero_b = _mm512_set1_ps(static_cast<float>(s.zero_b));
    V whole[4];
    __m512 away = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const __m512 x = _mm512_sub_ps(Values(a + q * kLanes), zero_a);
      const __m512 y = _mm512_sub_ps(Values(b + q * kLanes), zero_b);
      const __m512 steps = _mm512_mul_ps(_mm512_mul_ps(x, y), _mm512_set1_ps(factor));
      whole[q] = _mm512_cvtps_epi32(steps);
      constexpr int kLargerMagnitude = 0b1011;
      away = _mm512_range_ps(away, _mm512_reduce_ps(steps, 0), kLargerMagnitude);
    }
    if (_mm512_cmp_ps_mask(away, _mm512_set1_ps(0.5F - 0x1p-12F), _CMP_GT_OQ) != 0) return false;
    _mm512_storeu_si512(result, InOrder(Packed(whole[0], whole[1], whole[2], whole[3], cut)));
    return true;
  }
  /// QuantizeRun of kBytes.
  static bool QuantizeVector(const ByteQuantization& s, const float* values, uint8_t* result) {
    const __m512 reciprocal = _mm512_set1_ps(1 / s.scale);
    const __m512 most_away = _mm512_set1_ps(0.5F - 0x1p-12F);
    V whole[4];
    __mmask16 near = 0;
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const __m512 steps = _mm512_mul_ps(_mm512_loadu_ps(values + q * kLanes), reciprocal);
      // The second operand is the result where one is NaN.
      const __m512 held =
          _mm512_max_ps(_mm512_set1_ps(s.least), _mm512_min_ps(_mm512_set1_ps(s.most), steps));
      whole[q] = _mm512_cvtps_epi32(held);
      const __m512 away = _mm512_abs_ps(_mm512_reduce_ps(held, 0));
      near = static_cast<__mmask16>(near | _mm512_cmp_ps_mask(away, most_away, _CMP_NLE_UQ));
    }
    if (near != 0) return false;
    const V zero = _mm512_set1_epi16(static_cast<int16_t>(s.zero));
    const V low = _mm512_add_epi16(_mm512_packs_epi32(whole[0], whole[1]), zero);
    const V high = _mm512_add_epi16(_mm512_packs_epi32(whole[2], whole[3]), zero);
    _mm512_storeu_si512(result, InOrder(_mm512_packus_epi16(low, high)));
    return true;
  }
  static __m512 Values(const uint8_t* bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
  }
  static V LargerBytes(V a, V b) { return _mm512_max_epu8(a, b); }
  template <int kBlocks>
  static void StoreBlocks(V bytes, uint8_t* to) {
    const __m256i half = _mm512_castsi512_si256(bytes);
    if constexpr (kBlocks == 4) {
      _mm512_storeu_si512(to, bytes);
    } else if constexpr (kBlocks == 1) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(half));
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
      if constexpr (kBlocks == 3)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 32), _mm512_extracti32x4_epi32(bytes, 2));
    }
  }
  /// Blocks kAt to kAt + kCount of four.
  template <int kAt, int kCount>
  static V BlocksFrom(V bytes) {
    if constexpr (kAt == 0)
      return bytes;
    else if constexpr (kCount == 1)
      return _mm512_castsi128_si512(_mm512_extracti32x4_epi32(bytes, kAt));
    else
      return _mm512_castsi256_si512(_mm512_extracti64x4_epi64(bytes, 1));
  }
  static void StoreBytes(V bytes, uint8_t* to, int64_t count) {
    if (count >= kBytes) {
      _mm512_storeu_si512(to, bytes);
      return;
    }
    __m256i half = _mm512_castsi512_si256(bytes);
    if (count >= 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
      half = _mm512_extracti64x4_epi64(bytes, 1);
      to += 32;
      count -= 32;
    }
    __m128i quarter = _mm256_castsi256_si128(half);
    if (count >= 16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), quarter);
      quarter = _mm256_extracti128_si256(half, 1);
      to += 16;
      count -= 16;
    }
    if (count >= 8) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to), quarter);
      quarter = _mm_unpackhi_epi64(quarter, quarter);
      to += 8;
      count -= 8;
    }
    if (count == 0) return;
    alignas(16) uint8_t rest[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(rest), quarter);
    for (int64_t i = 0; i < count; ++i) to[i] = rest[i];
  }
  static void StoreInterleaved(const V* steps, uint8_t* to, int64_t count) {
    const V bytes =
        _mm512_packus_epi16(_mm512_packs_epi32(steps[0], steps[1]), _mm512_packs_epi32(steps[2], steps[3]));
    StoreBytes(bytes, to, count);
  }
};

constexpr int kMostRows = 4;
constexpr int kMostBlocks = 4;
constexpr int64_t kMostWindows[5] = {0, 14, 12, 8, 6};
