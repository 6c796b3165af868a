// Fused multiply-add on every target of Highway.

#if defined(DETENT_CORE_FUSED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_CORE_FUSED_INL_H_
#undef DETENT_CORE_FUSED_INL_H_
#else
#define DETENT_CORE_FUSED_INL_H_
#endif

#include <cmath>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// a * b + c, rounded once. Without an instruction it calls the C library lane by lane: exact and slow.
template <class D, class V = hwy::HWY_NAMESPACE::VFromD<D>>
HWY_INLINE V Fused([[maybe_unused]] D d, V a, V b, V c) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  using T = hn::TFromD<D>;
  HWY_ALIGN T lanes[3][hn::MaxLanes(d)];
  hn::Store(a, d, lanes[0]);
  hn::Store(b, d, lanes[1]);
  hn::Store(c, d, lanes[2]);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[0][i] = std::fma(lanes[0][i], lanes[1][i], lanes[2][i]);
  return hn::Load(d, lanes[0]);
#endif
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_CORE_FUSED_INL_H_
