// Per-target include guard
#if defined(DETENT_FORMATS_BLOCK_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_BLOCK_LANES_INL_H_
#undef DETENT_FORMATS_BLOCK_LANES_INL_H_
#else
#define DETENT_FORMATS_BLOCK_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <limits>

#include "detent/formats/all-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

using BlockTag = hn::ScalableTag<float>;
using BlockVec = hn::Vec<BlockTag>;
using IntTag = hn::RebindToSigned<BlockTag>;
using IntVec = hn::Vec<IntTag>;

/// Of narrow blocks: tile_columns() at most.
constexpr size_t kMaxTile = 512;

/// 0 for infinities and NaN.
HWY_INLINE BlockVec FiniteMagnitude(BlockTag d, BlockVec x) {
  const BlockVec magnitude = hn::Abs(x);
  return hn::IfThenElseZero(hn::Le(magnitude, hn::Set(d, std::numeric_limits<float>::max())), magnitude);
}

#if HWY_TARGET != HWY_SCALAR
/// The largest lane of each of four vectors. Pairs are interleaved, so that two steps leave the maxima of all
/// four side by side in each 16 bytes; then halves are compared.
template <class D>
HWY_INLINE void StoreLargestLanes(D d, hn::Vec<D> largest_of_four, hn::TFromD<D>* to) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    const auto larger = hn::Max(hn::LowerHalf(half, largest_of_four), hn::UpperHalf(half, largest_of_four));
    StoreLargestLanes(half, larger, to);
  } else {
    hn::StoreU(largest_of_four, d, to);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> InterleavedMax(D d, hn::Vec<D> a, hn::Vec<D> b) {
  return hn::Max(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
}

template <class D>
HWY_INLINE void StoreLargestOfFour(D d, hn::Vec<D> first, hn::Vec<D> second, hn::Vec<D> third,
                                   hn::Vec<D> fourth, hn::TFromD<D>* to) {
  const auto odd = InterleavedMax(d, first, third);
  const auto even = InterleavedMax(d, second, fourth);
  StoreLargestLanes(d, InterleavedMax(d, odd, even), to);
}
#endif

HWY_INLINE BlockVec LoadPartial(BlockTag d, const float* from, size_t count) {
  HWY_ALIGN float buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, from, count * sizeof(float));
  return hn::Load(d, buffer);
}

HWY_INLINE void StorePartial(BlockTag d, BlockVec v, float* to, size_t count) {
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  std::memcpy(to, buffer, count * sizeof(float));
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_BLOCK_LANES_INL_H_
