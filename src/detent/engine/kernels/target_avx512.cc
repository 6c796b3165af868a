#include "detent/engine/kernels/includes-inl.h"
#include "detent/engine/kernels/kernel_set.h"

#if HWY_ARCH_X86
#include <immintrin.h>

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,bmi,bmi2,f16c,avx512f,avx512vl,avx512dq,avx512bw")
namespace detent::avx512 {

#include "detent/engine/kernels/avx512_ops-inl.h"

/// Bytes times bytes would saturate in 16 bits, so both are widened to 16: exact products, in pairs.
struct Ops : Common {
  static constexpr bool kAddsFour = false;  // products at once
  struct Halves {
    V even, odd;
  };
  using X = Halves;
  using W = Halves;

  static W LoadWeights(const int8_t* p) { return Factors(_mm512_loadu_si512(p)); }
  static X Inputs(V v) { return {_mm512_and_si512(v, _mm512_set1_epi16(0xFF)), _mm512_srli_epi16(v, 8)}; }
  static W Factors(V w) { return {_mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8), _mm512_srai_epi16(w, 8)}; }
  /// Sums of two products each, in 16 bits.
  static V Pairs(V x, V codes) { return _mm512_maddubs_epi16(x, codes); }
  static V Joined(V pairs) { return _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)); }
  /// a x + b y, with sums of two such products in 16 bits.
  static HWY_INLINE V AddSmallProducts(V sums, V a, V x, V b, V y) {
    return Sum(sums, Joined(SumOfPairs(Pairs(a, x), Pairs(b, y))));
  }
  static X Broadcast(const uint8_t* p) { return Inputs(Four(p)); }
  static V AddProducts(V sums, X x, W w) {
    return _mm512_add_epi32(
        sums, _mm512_add_epi32(_mm512_madd_epi16(x.even, w.even), _mm512_madd_epi16(x.odd, w.odd)));
  }
};

constexpr const char* kName = "AVX3";

#include "detent/engine/kernels/tiles-inl.h"
#include "detent/engine/kernels/narrow_codes-inl.h"
#include "detent/engine/kernels/narrow_pairs-inl.h"
#include "detent/engine/kernels/sums-inl.h"
#include "detent/engine/kernels/elementwise-inl.h"
#include "detent/engine/kernels/product-inl.h"
#include "detent/engine/kernels/avx512_blocks-inl.h"
#include "detent/engine/kernels/block_inputs-inl.h"
#include "detent/engine/kernels/avx512_shuffled_blocks-inl.h"
#include "detent/engine/kernels/block_sums-inl.h"

/// Counts of bytes, from a table for four bits.
struct Bits : CommonBits {
  static constexpr int64_t kMostWords = 255 / 8;
  static constexpr int kMostSignWindows = 4;
  static constexpr int kMostTernaryWindows = 2;
  static B Count(B counts, B bits) {
    const B table = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const B four = _mm512_set1_epi8(15);
    const B low = _mm512_shuffle_epi8(table, _mm512_and_si512(bits, four));
    const B high = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(bits, 4), four));
    return _mm512_add_epi8(counts, _mm512_add_epi8(low, high));
  }
  static B Whole(B counts) { return _mm512_sad_epu8(counts, _mm512_setzero_si512()); }
};
#include "detent/engine/kernels/bit_planes-inl.h"
constexpr auto kAddBlocks = AddBlocksOfInputs;
constexpr auto kBitPlanes = BitPlanes;
constexpr auto kAddBitPlanes = AddBitPlanes;
#include "detent/engine/kernels/export-inl.h"

}  // namespace detent::avx512
HWY_POP_ATTRIBUTES
#endif
