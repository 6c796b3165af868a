#include "detent/engine/kernels/includes-inl.h"
#include "detent/engine/kernels/targets.h"

#if HWY_ARCH_X86
#include <immintrin.h>

#define DETENT_VNNI "avx,avx2,fma,bmi,bmi2,f16c,avx512f,avx512vl,avx512dq,avx512bw,avx512vnni"
HWY_PUSH_ATTRIBUTES(DETENT_VNNI)
namespace detent::avx512_vnni {

#include "detent/engine/kernels/avx512_ops-inl.h"

struct Ops : Common {
  using X = V;
  using W = V;

  static W LoadWeights(const int8_t* p) { return _mm512_loadu_si512(p); }
  static X Inputs(V v) { return v; }
  static W Factors(V w) { return w; }
  /// The high bits of bytes, of which the highest, the sign, is the other.
  static V HighBits(V v, uint8_t mask) {
    constexpr int kMaskAndFlip = 0x6A;  // (a & b) ^ c
    return _mm512_ternarylogic_epi32(v, _mm512_set1_epi8(static_cast<int8_t>(mask)), _mm512_set1_epi8(-128),
                                     kMaskAndFlip);
  }
  template <int kShift>
  static V Unscaled(V sums) {
    return _mm512_srai_epi32(sums, kShift);
  }
  static X Broadcast(const uint8_t* p) { return Four(p); }
  static V AddProducts(V sums, X x, W w) { return _mm512_dpbusd_epi32(sums, x, w); }
};

constexpr const char* kName = "AVX3_VNNI";

#include "detent/engine/kernels/tiles-inl.h"
#include "detent/engine/kernels/narrow_codes-inl.h"
#include "detent/engine/kernels/narrow_vnni-inl.h"
#include "detent/engine/kernels/sums-inl.h"
#include "detent/engine/kernels/elementwise-inl.h"
#include "detent/engine/kernels/product-inl.h"
#include "detent/engine/kernels/avx512_blocks-inl.h"
#include "detent/engine/kernels/block_sums-inl.h"
#include "detent/engine/kernels/avx512_bits-inl.h"
// Not one within the other: clang keeps only the outer one.
HWY_POP_ATTRIBUTES
HWY_PUSH_ATTRIBUTES(DETENT_VNNI ",avx512vpopcntdq")
struct Bits : CommonBits {
  static constexpr int64_t kMostWords = 0;  // no limit
  static constexpr int kMostSignWindows = 8;
  static constexpr int kMostTernaryWindows = 4;
  static B Count(B counts, B bits) { return _mm512_add_epi64(counts, _mm512_popcnt_epi64(bits)); }
  static B Whole(B counts) { return counts; }
};
#include "detent/engine/kernels/bit_planes-inl.h"
HWY_POP_ATTRIBUTES
HWY_PUSH_ATTRIBUTES(DETENT_VNNI)
const bool kCountsBits = __builtin_cpu_supports("avx512vpopcntdq") != 0;
const auto kBitPlanes = kCountsBits ? BitPlanes : nullptr;
const auto kAddBitPlanes = kCountsBits ? AddBitPlanes : nullptr;
#include "detent/engine/kernels/export-inl.h"

}  // namespace detent::avx512_vnni
HWY_POP_ATTRIBUTES
#endif
