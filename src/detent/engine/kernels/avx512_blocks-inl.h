// Included by target_avx512*.cc after a definition of Ops.

/// Blocks, but for how four bits are looked up.
struct CommonBlocks {
  static constexpr int kMostGroups = 4;  // of one window at once
  static constexpr int kTileGroups = 2;
  static constexpr int kTileWindows = 4;
  using V = Ops::V;
  using F = __m512;

  static F NoSum() { return _mm512_setzero_ps(); }
  static V Four(const int8_t* p) { return Ops::Four(reinterpret_cast<const uint8_t*>(p)); }
  static V Table(const uint8_t* p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static V Times(const int16_t* p, int32_t factor) {
    const V numbers = _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_mullo_epi32(numbers, Ops::Same(factor));
  }
  static F Powers(const uint8_t* exponents) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(exponents))), 23));
  }
  static F Halves(const uint16_t* scales) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales))), 16));
  }
  static F Whole(const float* scales) { return _mm512_loadu_ps(scales); }
  static F AddScaled(F sum, V products, F scale) {
    return _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(products), sum);
  }
  static void StoreSteps(F sum, float multiplier, const float* start, float* to) {
    _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_set1_ps(multiplier), sum, _mm512_loadu_ps(start)));
  }
};

/// Words of bits, but for how these are counted.
struct CommonBits {
  static constexpr int kWords = 8;
  using B = __m512i;

  static B Load(const int8_t* p) { return _mm512_loadu_si512(p); }
  static B Broadcast(const uint8_t* p) {
    long long word;
    std::memcpy(&word, p, sizeof(word));
    return _mm512_set1_epi64(word);
  }
  static B Same(int64_t count) { return _mm512_set1_epi64(count); }
  static B Common(B a, B b) { return _mm512_and_si512(a, b); }
  static B Differing(B both, B a, B b) {
    constexpr int kFirstIfOthersDiffer = 0x60;  // a & (b ^ c)
    return _mm512_ternarylogic_epi64(both, a, b, kFirstIfOthersDiffer);
  }
  static B More(B a, B b) { return _mm512_add_epi64(a, b); }
  static B Less(B a, B b) { return _mm512_sub_epi64(a, b); }
  static void Narrow(const B* sums, Ops::V* to) {
    const __m512i low = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(sums[0]));
    to[0] = _mm512_inserti64x4(low, _mm512_cvtepi64_epi32(sums[1]), 1);
  }
  static int32_t CountOf(uint64_t bits) { return static_cast<int32_t>(__builtin_popcountll(bits)); }
  /// Which bytes are not `zero`, and which are below.
  static std::pair<uint64_t, uint64_t> Compared(const uint8_t* bytes, uint8_t zero, int64_t /*count*/) {
    const __m512i x = _mm512_loadu_si512(bytes);
    const __m512i zeros = _mm512_set1_epi8(static_cast<int8_t>(zero));
    return {_mm512_cmpneq_epi8_mask(x, zeros), _mm512_cmplt_epu8_mask(x, zeros)};
  }
};
