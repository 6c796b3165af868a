// Included by target_avx512*.cc after a definition of Ops: but for how four bits are looked up.

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
  static V Times256(V numbers) { return _mm512_slli_epi32(numbers, 8); }
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
