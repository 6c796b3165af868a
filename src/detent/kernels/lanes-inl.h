// Sums in sixteen lanes whatever the width of vectors: element i is added to lane i % 16, and the lanes are
// added up in halves.

#if defined(DETENT_FLOAT32_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FLOAT32_LANES_INL_H_
#undef DETENT_FLOAT32_LANES_INL_H_
#else
#define DETENT_FLOAT32_LANES_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include <hwy/highway.h>

#include "detent/kernels/row_reductions.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Singles = hn::CappedTag<float, kSumLanes>;
using Doubles = hn::CappedTag<double, kSumLanes>;

// Whether masked loads leave memory past the end untouched.
#define DETENT_HAS_MASKED_LOADS (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)

/// How the vectors of a sixteen are read and written: whole, or its first `count` elements. `offset` is that
/// of the vector in the sixteen; `missing` stands for the elements past the end.
struct WholeSixteen {
  template <class D>
  HWY_INLINE hn::VFromD<D> Load(D d, const float* from, size_t /*offset*/, float /*missing*/) const {
    return hn::LoadU(d, from);
  }
  template <class D>
  HWY_INLINE void Store(hn::VFromD<D> values, D d, float* to, size_t /*offset*/) const {
    hn::StoreU(values, d, to);
  }
};
struct FirstOfSixteen {
  size_t count;

  HWY_INLINE size_t CountFrom(size_t offset) const { return count > offset ? count - offset : 0; }

  template <class D>
  HWY_INLINE hn::VFromD<D> Load(D d, const float* from, size_t offset, float missing) const {
#if DETENT_HAS_MASKED_LOADS
    const auto mask = hn::FirstN(d, CountFrom(offset));
    return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, from), hn::Set(d, missing));
#else
    alignas(64) float buffer[hn::MaxLanes(d)];
    std::fill_n(buffer, hn::Lanes(d), missing);
    std::copy_n(from, std::min(CountFrom(offset), hn::Lanes(d)), buffer);
    return hn::Load(d, buffer);
#endif
  }
  template <class D>
  HWY_INLINE void Store(hn::VFromD<D> values, D d, float* to, size_t offset) const {
#if DETENT_HAS_MASKED_LOADS
    hn::BlendedStore(values, hn::FirstN(d, CountFrom(offset)), d, to);
#else
    alignas(64) float buffer[hn::MaxLanes(d)];
    hn::Store(values, d, buffer);
    std::copy_n(buffer, std::min(CountFrom(offset), hn::Lanes(d)), to);
#endif
  }
};

/// Calls `visit(first element, whole or part)` for [0, count) in sixteens.
template <class Visit>
HWY_INLINE void ForEachSixteen(size_t count, Visit visit) {
  size_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) visit(i, WholeSixteen());
  if (i < count) visit(i, FirstOfSixteen{count - i});
}

/// The lanes of a vector added up in halves, as folded_sum does.
template <class D>
HWY_INLINE hn::TFromD<D> FoldedSum([[maybe_unused]] D d, hn::VFromD<D> v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(d) > 1) {
    const hn::Half<D> half;
    return FoldedSum(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
  return hn::GetLane(v);
}

/// Sixteen lanes in vectors.
template <class D>
class Sixteen {
 public:
  static constexpr size_t kLanes = hn::MaxLanes(D());
  static constexpr size_t kVectors = kSumLanes / kLanes;
  using V = hn::VFromD<D>;
  using T = hn::TFromD<D>;

  HWY_INLINE explicit Sixteen(T start) {
    for (size_t v = 0; v < kVectors; ++v) vectors[v] = hn::Set(D(), start);
  }
  HWY_INLINE T Sum() const {
    V halves[kVectors];
    for (size_t v = 0; v < kVectors; ++v) halves[v] = vectors[v];
    for (size_t width = kVectors / 2; width > 0; width /= 2) {
      for (size_t v = 0; v < width; ++v) halves[v] = hn::Add(halves[v], halves[v + width]);
    }
    return FoldedSum(D(), halves[0]);
  }

  V vectors[kVectors];
};

/// y = function(x, place) by vectors, for functions of each element alone. `place` loads other rows likewise.
template <class Function>
HWY_INLINE void MapSingles(const float* x, float* y, size_t count, Function function) {
  const Singles d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  ForEachSixteen(count, [&](size_t first, auto part) HWY_ATTR {
    for (size_t v = 0; v < kSumLanes; v += kLanes) {
      const size_t i = first + v;
      const auto place = [&](const float* row) HWY_ATTR { return part.Load(d, row + i, v, 0); };
      part.Store(function(place(x), place), d, y + i, v);
    }
  });
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FLOAT32_LANES_INL_H_
