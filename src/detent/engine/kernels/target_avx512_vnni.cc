#include "detent/engine/kernels/includes-inl.h"
#include "detent/engine/kernels/kernel_set.h"

#if HWY_ARCH_X86
#include <immintrin.h>

#define DETENT_VNNI "avx,avx2,fma,bmi,bmi2,f16c,avx512f,avx512vl,avx512dq,avx512bw,avx512vnni"
HWY_PUSH_ATTRIBUTES(DETENT_VNNI)
namespace detent::avx512_vnni {

#include "detent/engine/kernels/avx512_ops-inl.h"

struct Ops : Common {
  static constexpr bool kAddsFour = true;  // products at once
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
  static V AddSmallProducts(V sums, V a, V x, V b, V y) { return AddProducts(AddProducts(sums, a, x), b, y); }
};

constexpr const char* kName = "AVX3_VNNI";

#include "detent/engine/kernels/tiles-inl.h"
#include "detent/engine/kernels/narrow_codes-inl.h"
#include "detent/engine/kernels/narrow_vnni-inl.h"
#include "detent/engine/kernels/sums-inl.h"
#include "detent/engine/kernels/elementwise-inl.h"
#include "detent/engine/kernels/product-inl.h"
#include "detent/engine/kernels/avx512_blocks-inl.h"
#include "detent/engine/kernels/block_inputs-inl.h"
namespace shuffled {
#include "detent/engine/kernels/avx512_shuffled_blocks-inl.h"
#include "detent/engine/kernels/block_sums-inl.h"
}  // namespace shuffled
// Not one within the other: clang keeps only the outer one.
HWY_POP_ATTRIBUTES
HWY_PUSH_ATTRIBUTES(DETENT_VNNI ",avx512vbmi")
namespace permuted {
/// A table for the lowest six bits of bytes: the higher four need no mask.
struct Blocks : CommonBlocks {
  static V OfLow(V table, V packed) { return _mm512_permutexvar_epi8(packed, table); }
  static V OfHigh(V table, V packed) { return OfLow(table, _mm512_srli_epi16(packed, 4)); }
};
#include "detent/engine/kernels/block_sums-inl.h"  // NOLINT(readability-duplicate-include)

/// 128 entries an instruction, the upper half for bytes whose highest bit is set.
void LookUp(const uint8_t* table, const uint8_t* bytes, uint8_t* result, int64_t count) {
  __m512i parts[4];
  for (int p = 0; p < 4; ++p) parts[p] = _mm512_loadu_si512(table + int64_t{64} * p);
  for (int64_t i = 0; i < count; i += 64) {
    const __mmask64 taken = count - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (count - i)) - 1;
    const __m512i x = _mm512_maskz_loadu_epi8(taken, bytes + i);
    const __m512i low = _mm512_permutex2var_epi8(parts[0], x, parts[1]);
    const __m512i high = _mm512_permutex2var_epi8(parts[2], x, parts[3]);
    _mm512_mask_storeu_epi8(result + i, taken, _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high));
  }
}
}  // namespace permuted
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
HWY_PUSH_ATTRIBUTES(DETENT_VNNI ",amx-tile,amx-int8")
#include "detent/engine/kernels/amx_sums-inl.h"
HWY_POP_ATTRIBUTES
HWY_PUSH_ATTRIBUTES(DETENT_VNNI)
constexpr auto kAddBlocks = shuffled::AddBlocksOfInputs;
constexpr auto kBitPlanes = nullptr;  // products of bytes are faster than counting by a table
constexpr auto kAddBitPlanes = nullptr;
#include "detent/engine/kernels/export-inl.h"

const KernelSet& kernels_of_ice_lake() {
  static const KernelSet kSet = [] {
    KernelSet set = kernels();
    set.name = "AVX3_DL";
    set.add_blocks = permuted::AddBlocksOfInputs;
    set.look_up = permuted::LookUp;
    set.bit_planes = BitPlanes;
    set.add_bit_planes = AddBitPlanes;
    return set;
  }();
  return kSet;
}

const KernelSet& kernels_of_sapphire_rapids() {
  static const KernelSet kSet = [] {
    KernelSet set = kernels_of_ice_lake();
    set.name = "AMX";
    for (int64_t& most : set.most_windows) most = 2 * kTileRows;
    set.add_windows = AddWindowsInTiles;
    return set;
  }();
  return kSet;
}

void load_tile_shapes(const uint8_t* shapes) { LoadTileShapes(shapes); }
void store_tile_shapes(uint8_t* shapes) { StoreTileShapes(shapes); }

}  // namespace detent::avx512_vnni
HWY_POP_ATTRIBUTES
#endif
