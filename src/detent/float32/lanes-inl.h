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

#include "detent/float32/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Singles = hn::CappedTag<float, kSumLanes>;
using Doubles = hn::CappedTag<double, kSumLanes>;

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
    alignas(64) T lanes[kSumLanes];
    for (size_t v = 0; v < kVectors; ++v) hn::Store(vectors[v], D(), lanes + v * kLanes);
    return folded_sum<T>(lanes);
  }

  V vectors[kVectors];
};

/// Calls `visit(vector of 16, first element)` for [0, count) in sixteens. The last ones that are fewer come
/// from a copy in which `missing` follows.
template <class Visit>
HWY_INLINE void ForEachSixteen(const float* x, size_t count, float missing, Visit visit) {
  size_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) visit(x + i, i);
  if (i == count) return;
  alignas(64) float rest[kSumLanes];
  std::fill_n(rest, kSumLanes, missing);
  std::copy_n(x + i, count - i, rest);
  visit(rest, i);
}

/// y = function(x) by vectors, for functions of each element alone.
template <class Function>
HWY_INLINE void MapSingles(const float* x, float* y, size_t count, Function function) {
  const Singles d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(function(hn::LoadU(d, x + i), i), d, y + i);
  if (i == count) return;
  alignas(64) float rest[kLanes] = {};
  std::copy_n(x + i, count - i, rest);
  const auto& from = rest;
  alignas(64) float results[kLanes];
  hn::StoreU(function(hn::LoadU(d, from), i), d, results);
  std::copy_n(results, count - i, y + i);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FLOAT32_LANES_INL_H_
