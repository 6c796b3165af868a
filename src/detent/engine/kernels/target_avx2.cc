#include "detent/engine/kernels/includes-inl.h"
#include "detent/engine/kernels/targets.h"

#if HWY_ARCH_X86
#include <immintrin.h>

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,bmi,bmi2,f16c")
namespace detent::avx2 {

/// Bytes times bytes would saturate in 16 bits here, so both are widened to 16: exact products, in pairs.
struct Ops {
#include "detent/engine/kernels/interleave_three-inl.h"

  static constexpr int64_t kBytes = 32;
  static constexpr int64_t kLanes = 8;
  using V = __m256i;
  struct Halves {
    V even, odd;
  };
  using X = Halves;
  using W = Halves;

  static V LoadSums(const int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const V*>(p)); }
  static void StoreSums(V v, int32_t* p) { _mm256_storeu_si256(reinterpret_cast<V*>(p), v); }
  static V LoadBytes(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const V*>(p)); }
  static W LoadWeights(const int8_t* p) {
    const V w = _mm256_loadu_si256(reinterpret_cast<const V*>(p));
    return {_mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), _mm256_srai_epi16(w, 8)};
  }
  static V LoadPacked(const int8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const V*>(p)); }
  template <int kBits>
  static W Unpacked(V packed, int step) {
    const V codes =
        _mm256_and_si256(_mm256_srli_epi16(packed, kBits * step), _mm256_set1_epi8((1 << kBits) - 1));
    const V w = _mm256_sub_epi8(codes, _mm256_set1_epi8(1 << (kBits - 1)));
    return {_mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), _mm256_srai_epi16(w, 8)};
  }
  static X Inputs(V v) { return {_mm256_and_si256(v, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16(v, 8)}; }
  static X Broadcast(const uint8_t* p) {
    int32_t four;
    std::memcpy(&four, p, sizeof(four));
    return Inputs(_mm256_set1_epi32(four));
  }
  static V AddProducts(V sums, X x, W w) {
    return _mm256_add_epi32(
        sums, _mm256_add_epi32(_mm256_madd_epi16(x.even, w.even), _mm256_madd_epi16(x.odd, w.odd)));
  }
  static V LowBytes(V a, V b) { return _mm256_unpacklo_epi8(a, b); }
  static V HighBytes(V a, V b) { return _mm256_unpackhi_epi8(a, b); }
  static V LowPairs(V a, V b) { return _mm256_unpacklo_epi16(a, b); }
  static V HighPairs(V a, V b) { return _mm256_unpackhi_epi16(a, b); }
  static V Rounded(V sums, const float* multiplier, float least, float most, int32_t zero) {
    const __m256 steps = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(multiplier));
    const __m256 held = _mm256_max_ps(_mm256_min_ps(steps, _mm256_set1_ps(most)), _mm256_set1_ps(least));
    return _mm256_add_epi32(_mm256_cvtps_epi32(held), _mm256_set1_epi32(zero));
  }
  static void StoreValues(V sums, const float* scale, float* to) {
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(scale)));
  }
  static void StoreBlock(const V* steps, uint8_t* to) {
    const V words = _mm256_packs_epi32(steps[0], steps[1]);
    const V ordered = _mm256_permute4x64_epi64(words, 0xD8);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
  }
  static V LargerBytes(V a, V b) { return _mm256_max_epu8(a, b); }
  static void StoreInterleaved(const V* steps, uint8_t* to, int64_t count) {
    StoreBytes(
        _mm256_packus_epi16(_mm256_packs_epi32(steps[0], steps[1]), _mm256_packs_epi32(steps[2], steps[3])),
        to, count);
  }
  static void StoreBytes(V bytes, uint8_t* to, int64_t count) {
    if (count >= kBytes) {
      _mm256_storeu_si256(reinterpret_cast<V*>(to), bytes);
      return;
    }
    alignas(32) uint8_t all[32];
    _mm256_store_si256(reinterpret_cast<V*>(all), bytes);
    std::memcpy(to, all, static_cast<size_t>(count));
  }
};

constexpr const char* kName = "AVX2";
constexpr int kMostRows = 1;
constexpr int kMostBlocks = 1;
constexpr int64_t kMostWindows[5] = {0, 4, 0, 0, 0};

#include "detent/engine/kernels/sums-inl.h"
#include "detent/engine/kernels/elementwise-inl.h"
#include "detent/engine/kernels/export-inl.h"

}  // namespace detent::avx2
HWY_POP_ATTRIBUTES
#endif
