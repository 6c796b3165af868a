// exp in float32 lanes, within 1 unit in the last place: n ln(2) + r, where exp(r) = 1 + rest.

#if defined(DETENT_FLOAT32_SINGLE_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FLOAT32_SINGLE_EXP_INL_H_
#undef DETENT_FLOAT32_SINGLE_EXP_INL_H_
#else
#define DETENT_FLOAT32_SINGLE_EXP_INL_H_
#endif

#include <cstdint>
#include <iterator>

#include <hwy/highway.h>

#include "detent/core/fused-inl.h"
#include "detent/kernels/coefficients.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class V>
struct ReducedExp {
  V r;
  V power;  // 2^n
};

/// x is in the range where the result is no subnormal.
template <class D, class V>
HWY_INLINE ReducedExp<V> ReduceExp(D d, V x) {
  namespace c = coefficients;
  const hn::RebindToUnsigned<D> du;
  const V rounded = Fused(d, x, hn::Set(d, c::kFloatLog2E), hn::Set(d, c::kFloatRounder));
  const V n = hn::Sub(rounded, hn::Set(d, c::kFloatRounder));
  const V r = Fused(d, n, hn::Set(d, -c::kFloatLn2High), x);
  const auto biased = hn::Add(hn::BitCast(du, rounded), hn::Set(du, uint32_t{127}));
  return {Fused(d, n, hn::Set(d, -c::kFloatLn2Low), r), hn::BitCast(d, hn::ShiftLeft<23>(biased))};
}

template <class D, class V>
HWY_INLINE V ExpRest(D d, V r) {
  namespace c = coefficients;
  V sum = hn::Set(d, c::kFloatExp[0]);
  for (size_t i = 1; i < std::size(c::kFloatExp); ++i) sum = Fused(d, sum, r, hn::Set(d, c::kFloatExp[i]));
  return Fused(d, hn::Mul(r, r), sum, r);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FLOAT32_SINGLE_EXP_INL_H_
