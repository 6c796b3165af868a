// Included by target_avx512*.cc: what AVX-512 has with and without VNNI.

struct Common {
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
  static V LoadPacked(const int8_t* p) { return _mm512_loadu_si512(p); }
  template <int kBits>
  static V UnpackedBytes(V packed, int step) {
    const V shifted = _mm512_srl_epi16(packed, _mm_cvtsi32_si128(kBits * step));
    const V codes = _mm512_and_si512(shifted, _mm512_set1_epi8((1 << kBits) - 1));
    return _mm512_sub_epi8(codes, _mm512_set1_epi8(1 << (kBits - 1)));
  }
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
  /// Four vectors of sums as bytes: those of 16 bytes of each follow each other.
  static V Packed(const V* sums, const float* multiplier, const SumFinish& f) {
    V steps[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      steps[q] = _mm512_cvtps_epi32(
          _mm512_mul_ps(_mm512_cvtepi32_ps(sums[q]), _mm512_loadu_ps(multiplier + q * kLanes)));
    }
    const V zero = _mm512_set1_epi16(static_cast<int16_t>(f.zero));
    const V low = _mm512_adds_epi16(_mm512_packs_epi32(steps[0], steps[1]), zero);
    const V high = _mm512_adds_epi16(_mm512_packs_epi32(steps[2], steps[3]), zero);
    const V least = _mm512_set1_epi8(static_cast<int8_t>(static_cast<int32_t>(f.least) + f.zero));
    const V most = _mm512_set1_epi8(static_cast<int8_t>(static_cast<int32_t>(f.most) + f.zero));
    return _mm512_max_epu8(_mm512_min_epu8(_mm512_packus_epi16(low, high), most), least);
  }
  /// Requantizes up to four blocks, the bytes of each in order. Reads as many multipliers as four have.
  template <int kBlocks>
  static V PackedBlocks(const V* sums, const float* multiplier, const SumFinish& f) {
    V four[4];
#pragma GCC unroll 4
    for (int b = 0; b < 4; ++b) four[b] = sums[b < kBlocks ? b : 0];
    return InOrder(Packed(four, multiplier, f));
  }
  static V InOrder(V packed) {
    const V order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, packed);
  }
  static __m512 Steps(const uint8_t* bytes, int32_t zero, float scale) {
    const V codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(codes, _mm512_set1_epi32(zero))),
                         _mm512_set1_ps(scale));
  }
  /// AddRun of kBytes.
  static bool AddVector(const ByteAddition& s, const uint8_t* a, const uint8_t* b, uint8_t* result) {
    const __m512 reciprocal = _mm512_set1_ps(1 / s.scale);
    const __m512 most_near = _mm512_set1_ps(0.5F - 0x1p-12F);
    V whole[4];
    __mmask16 near = 0;
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const __m512 sum = _mm512_add_ps(Steps(a + q * kLanes, s.zero_a, s.scale_a),
                                       Steps(b + q * kLanes, s.zero_b, s.scale_b));
      const __m512 held = _mm512_max_ps(_mm512_min_ps(_mm512_mul_ps(sum, reciprocal), _mm512_set1_ps(s.most)),
                                        _mm512_set1_ps(s.least));
      whole[q] = _mm512_cvtps_epi32(held);
      const __m512 away = _mm512_abs_ps(_mm512_sub_ps(held, _mm512_cvtepi32_ps(whole[q])));
      near = static_cast<__mmask16>(near | _mm512_cmp_ps_mask(away, most_near, _CMP_GT_OQ));
    }
    if (near != 0) return false;
    const V zero = _mm512_set1_epi16(static_cast<int16_t>(s.zero));
    const V low = _mm512_add_epi16(_mm512_packs_epi32(whole[0], whole[1]), zero);
    const V high = _mm512_add_epi16(_mm512_packs_epi32(whole[2], whole[3]), zero);
    _mm512_storeu_si512(result, InOrder(_mm512_packus_epi16(low, high)));
    return true;
  }
  static V LargerBytes(V a, V b) { return _mm512_max_epu8(a, b); }
  template <int kBlocks>
  static void StoreBlocks(V bytes, uint8_t* to) {
    if constexpr (kBlocks == 4) {
      _mm512_storeu_si512(to, bytes);
    } else {
      const __m256i half = _mm512_castsi512_si256(bytes);
      if constexpr (kBlocks == 1) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(half));
      } else {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
      }
      if constexpr (kBlocks == 3)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 32), _mm512_extracti32x4_epi32(bytes, 2));
    }
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

constexpr int kMostBlocks = 4;
constexpr int64_t kMostWindows[5] = {0, 14, 12, 8, 6};
