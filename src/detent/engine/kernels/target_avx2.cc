#include "detent/engine/kernels/includes-inl.h"
#include "detent/engine/kernels/kernel_set.h"

#if HWY_ARCH_X86
#include <immintrin.h>

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,bmi,bmi2,f16c")
namespace detent::avx2 {

/// Bytes times bytes would saturate in 16 bits here, so both are widened to 16: exact products, in pairs.
struct Ops {
  static constexpr bool kAddsFour = false;  // products at once
#include "detent/engine/kernels/interleave-inl.h"

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
  static W Factors(V w) { return {_mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), _mm256_srai_epi16(w, 8)}; }
  static W LoadWeights(const int8_t* p) { return Factors(_mm256_loadu_si256(reinterpret_cast<const V*>(p))); }
  static V Sum(V a, V b) { return _mm256_add_epi32(a, b); }
  static V Zero() { return _mm256_setzero_si256(); }
  static V Times256(V numbers) { return _mm256_slli_epi32(numbers, 8); }
  /// Shifts 16-bit lanes; bits that come from the neighbouring byte are masked away.
  template <int kBits>
  static V Shifted(V v) {
    if constexpr (kBits == 0)
      return v;
    else if constexpr (kBits > 0)
      return _mm256_slli_epi16(v, kBits);
    else
      return _mm256_srli_epi16(v, -kBits);
  }
  static V Masked(V v, uint8_t mask) { return _mm256_and_si256(v, SameByte(mask)); }
  static V Or(V a, V b) { return _mm256_or_si256(a, b); }
  static V Same(int32_t number) { return _mm256_set1_epi32(number); }
  static V SameByte(uint8_t byte) { return _mm256_set1_epi8(static_cast<int8_t>(byte)); }
  static V Average(V a, V b) { return _mm256_avg_epu8(a, b); }
  static V AddBytes(V a, V b) { return _mm256_add_epi8(a, b); }
  /// Sums of two products each, in 16 bits.
  static V Pairs(V x, V codes) { return _mm256_maddubs_epi16(x, codes); }
  static V SumOfPairs(V a, V b) { return _mm256_add_epi16(a, b); }
  static V Joined(V pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }
  /// a x + b y, with sums of two such products in 16 bits.
  static HWY_INLINE V AddSmallProducts(V sums, V a, V x, V b, V y) {
    return Sum(sums, Joined(SumOfPairs(Pairs(a, x), Pairs(b, y))));
  }
  static X Inputs(V v) { return {_mm256_and_si256(v, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16(v, 8)}; }
  static V Four(const uint8_t* p) {
    int32_t four;
    std::memcpy(&four, p, sizeof(four));
    return _mm256_set1_epi32(four);
  }
  static X Broadcast(const uint8_t* p) { return Inputs(Four(p)); }
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

#include "detent/engine/kernels/tiles-inl.h"
#include "detent/engine/kernels/narrow_codes-inl.h"
#include "detent/engine/kernels/narrow_pairs-inl.h"
#include "detent/engine/kernels/sums-inl.h"
#include "detent/engine/kernels/elementwise-inl.h"
#include "detent/engine/kernels/product-inl.h"

struct Blocks {
  static constexpr int kMostGroups = 1;  // of one window at once
  static constexpr int kTileGroups = 1;
  static constexpr int kTileWindows = 2;
  using V = Ops::V;
  using F = __m256;

  static F NoSum() { return _mm256_setzero_ps(); }
  static V Four(const int8_t* p) { return Ops::Four(reinterpret_cast<const uint8_t*>(p)); }
  static V Table(const uint8_t* p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static V OfLow(V table, V packed) {
    return _mm256_shuffle_epi8(table, _mm256_and_si256(packed, _mm256_set1_epi8(15)));
  }
  static V OfHigh(V table, V packed) { return OfLow(table, _mm256_srli_epi16(packed, 4)); }
  static V Times(const int16_t* p, int32_t factor) {
    const V numbers = _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_mullo_epi32(numbers, Ops::Same(factor));
  }
  static F Powers(const uint8_t* exponents) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(exponents))), 23));
  }
  static F Halves(const uint16_t* scales) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales))), 16));
  }
  static F Whole(const float* scales) { return _mm256_loadu_ps(scales); }
  static F AddScaled(F sum, V products, F scale) {
    return _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(products), sum);
  }
  static void StoreSteps(F sum, float multiplier, const float* start, float* to) {
    _mm256_storeu_ps(to, _mm256_fmadd_ps(_mm256_set1_ps(multiplier), sum, _mm256_loadu_ps(start)));
  }
};
#include "detent/engine/kernels/block_inputs-inl.h"
#include "detent/engine/kernels/block_sums-inl.h"

/// Counts of bytes, from a table for four bits.
struct Bits {
  static constexpr int kWords = 4;
  static constexpr int64_t kMostWords = 255 / 8;
  static constexpr int kMostSignWindows = 1;
  static constexpr int kMostTernaryWindows = 1;
  using B = __m256i;

  static B Load(const int8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const B*>(p)); }
  static B Broadcast(const uint8_t* p) {
    long long word;
    std::memcpy(&word, p, sizeof(word));
    return _mm256_set1_epi64x(word);
  }
  static B Same(int64_t count) { return _mm256_set1_epi64x(count); }
  static B Common(B a, B b) { return _mm256_and_si256(a, b); }
  static B Differing(B both, B a, B b) { return _mm256_and_si256(both, _mm256_xor_si256(a, b)); }
  static B More(B a, B b) { return _mm256_add_epi64(a, b); }
  static B Less(B a, B b) { return _mm256_sub_epi64(a, b); }
  static B Count(B counts, B bits) {
    const B table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const B four = _mm256_set1_epi8(15);
    const B low = _mm256_shuffle_epi8(table, _mm256_and_si256(bits, four));
    const B high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bits, 4), four));
    return _mm256_add_epi8(counts, _mm256_add_epi8(low, high));
  }
  static B Whole(B counts) { return _mm256_sad_epu8(counts, _mm256_setzero_si256()); }
  static void Narrow(const B* sums, Ops::V* to) {
    for (int v = 0; v < 2; ++v) {
      const __m256 low = _mm256_shuffle_ps(_mm256_castsi256_ps(sums[int64_t{2} * v]),
                                           _mm256_castsi256_ps(sums[int64_t{2} * v + 1]), 0x88);
      to[v] = _mm256_permute4x64_epi64(_mm256_castps_si256(low), 0xD8);
    }
  }
  static int32_t CountOf(uint64_t bits) { return static_cast<int32_t>(__builtin_popcountll(bits)); }
  /// Which bytes are not `zero`, and which are below.
  static std::pair<uint64_t, uint64_t> Compared(const uint8_t* bytes, uint8_t zero, int64_t /*count*/) {
    const B zeros = _mm256_set1_epi8(static_cast<int8_t>(zero));
    uint64_t others = 0;
    uint64_t below = 0;
    for (int half = 0; half < 2; ++half) {
      const B x = Ops::LoadBytes(bytes + int64_t{32} * half);
      const auto mask = [](B v) { return uint64_t{static_cast<uint32_t>(_mm256_movemask_epi8(v))}; };
      const uint64_t other = mask(_mm256_cmpeq_epi8(x, zeros)) ^ 0xFFFFFFFF;
      const uint64_t least = mask(_mm256_cmpeq_epi8(_mm256_min_epu8(x, zeros), x));
      others |= other << (32 * half);
      below |= (other & least) << (32 * half);
    }
    return {others, below};
  }
};
#include "detent/engine/kernels/bit_planes-inl.h"
constexpr auto kAddBlocks = AddBlocksOfInputs;
constexpr auto kBitPlanes = BitPlanes;
constexpr auto kAddBitPlanes = AddBitPlanes;
#include "detent/engine/kernels/export-inl.h"

}  // namespace detent::avx2
HWY_POP_ATTRIBUTES
#endif
