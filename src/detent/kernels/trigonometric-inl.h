// The circular functions of double lanes that hold float32 values, likewise (elementary-inl.h).

#if defined(DETENT_FLOAT32_TRIGONOMETRIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FLOAT32_TRIGONOMETRIC_INL_H_
#undef DETENT_FLOAT32_TRIGONOMETRIC_INL_H_
#else
#define DETENT_FLOAT32_TRIGONOMETRIC_INL_H_
#endif

#include <cmath>

#include <hwy/highway.h>

#include "detent/core/fused-inl.h"
#include "detent/kernels/coefficients.h"
#include "detent/kernels/elementary-inl.h"
#include "detent/kernels/functions_reference.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x - n pi, where 2 n is whole and |x| < kHugeAngle. The first step is exact, or x is small beside pi: n kPi
/// is a multiple of 2^-52, as x is, and so is what it leaves, which is below 2. That is at least 2^-30 (no
/// float32 comes closer to a multiple of pi / 2), and the second step errs by less than 2^-75.
template <class D, class V>
HWY_INLINE V LessMultipleOfPi(D d, V x, V n) {
  namespace c = coefficients;
  return Fused(d, n, hn::Set(d, -c::kPiRest), Fused(d, n, hn::Set(d, -c::kPi), x));
}

/// Angles that are huge, infinities among them, are computed one by one.
template <class D, class V>
HWY_INLINE V WithHugeAngles(D d, V x, V results, double (*function)(double)) {
  constexpr double kHuge = coefficients::kHugeAngle;
  if (HWY_LIKELY(hn::AllFalse(d, hn::Ge(hn::Abs(x), hn::Set(d, kHuge))))) return results;
  double angles[hn::MaxLanes(d)];
  double values[hn::MaxLanes(d)];
  hn::StoreU(x, d, angles);
  hn::StoreU(results, d, values);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (std::fabs(angles[i]) >= kHuge) values[i] = function(angles[i]);
  }
  return hn::LoadU(d, values);
}

template <class D, class V>
HWY_INLINE V SineNearZero(D d, V r) {
  return hn::Mul(r, Polynomial(d, hn::Mul(r, r), coefficients::kSine));
}

/// `rounded` is a whole number plus kRounder.
template <class D, class V>
HWY_INLINE V NegatedWhereOdd(D d, V rounded, V value) {
  const hn::RebindToUnsigned<D> du;
  return hn::Xor(value, hn::BitCast(d, hn::ShiftLeft<63>(hn::BitCast(du, rounded))));
}

/// sin(x + shift pi), where shift is 0 or 1 / 2.
template <class D, class V>
HWY_INLINE V ShiftedSine(D d, V x, double shift) {
  namespace c = coefficients;
  const V turns = Fused(d, x, hn::Set(d, c::kInversePi), hn::Set(d, shift));
  const V rounded = hn::Add(turns, hn::Set(d, c::kRounder));
  const V n = hn::Sub(hn::Sub(rounded, hn::Set(d, c::kRounder)), hn::Set(d, shift));
  return NegatedWhereOdd(d, rounded, SineNearZero(d, LessMultipleOfPi(d, x, n)));
}

template <class D, class V>
HWY_INLINE V Sin(D d, V x) {
  return WithHugeAngles(d, x, ShiftedSine(d, x, 0), sine_reference);
}

template <class D, class V>
HWY_INLINE V Cos(D d, V x) {
  return WithHugeAngles(d, x, ShiftedSine(d, x, 0.5), cosine_reference);
}

template <class D, class V>
HWY_INLINE V Tan(D d, V x) {
  namespace c = coefficients;
  const hn::RebindToUnsigned<D> du;
  const V rounded = Fused(d, x, hn::Set(d, 2 * c::kInversePi), hn::Set(d, c::kRounder));
  const V n = hn::Mul(hn::Sub(rounded, hn::Set(d, c::kRounder)), hn::Set(d, 0.5));
  const V r = LessMultipleOfPi(d, x, n);
  const V sine = NegatedWhereOdd(d, rounded, SineNearZero(d, r));
  const V cosine = Polynomial(d, hn::Mul(r, r), c::kCosine);
  const auto one = hn::Set(du, uint64_t{1});
  const auto is_odd = hn::RebindMask(d, hn::Eq(hn::And(hn::BitCast(du, rounded), one), one));
  // -1 / tan(r) after an odd number of quarter turns: the sign is in the sine.
  const V tangent = hn::Div(hn::IfThenElse(is_odd, cosine, sine), hn::IfThenElse(is_odd, sine, cosine));
  return WithHugeAngles(d, x, tangent, tangent_reference);
}

/// With t = |x|: atan(t), pi / 4 + atan((t - 1) / (t + 1)) or pi / 2 - atan(1 / t), where what is left is at
/// most pi / 8.
template <class D, class V>
HWY_INLINE V Atan(D d, V x) {
  namespace c = coefficients;
  const V one = hn::Set(d, 1.0);
  const V t = hn::Abs(x);
  const auto is_small = hn::Lt(t, hn::Set(d, c::kTanOfEighth));
  const auto is_large = hn::Gt(t, hn::Set(d, 1 / c::kTanOfEighth));
  V turn = hn::IfThenElse(is_large, hn::Set(d, c::kPi / 2), hn::Set(d, c::kPi / 4));
  V over = hn::IfThenElse(is_large, hn::Set(d, -1.0), hn::Sub(t, one));
  V under = hn::IfThenElse(is_large, t, hn::Add(t, one));
  turn = hn::IfThenZeroElse(is_small, turn);
  over = hn::IfThenElse(is_small, t, over);
  under = hn::IfThenElse(is_small, one, under);
  const V place = hn::Div(over, under);
  const V angle = Fused(d, place, Polynomial(d, hn::Mul(place, place), c::kAtan), turn);
  return hn::CopySignToAbs(angle, x);
}

/// asin(x) where |x| <= 1 / 2, and beyond it half of pi / 2 - asin(|x|), with the sign of x: it is
/// asin(sqrt((1 - |x|) / 2)).
template <class V, class M>
struct ArcSine {
  V angle;
  M is_half;
};

template <class D, class V>
HWY_INLINE auto SplitArcSine(D d, V x) {
  const V half = hn::Set(d, 0.5);
  const V t = hn::Abs(x);
  const auto is_half = hn::Gt(t, half);
  const V rest = hn::Mul(hn::Sub(hn::Set(d, 1.0), t), half);
  const V square = hn::IfThenElse(is_half, rest, hn::Mul(t, t));
  const V sine = hn::IfThenElse(is_half, hn::Sqrt(rest), t);
  const V angle = hn::Mul(sine, Polynomial(d, square, coefficients::kAsin));
  return ArcSine<V, decltype(hn::Gt(t, half))>{hn::CopySign(angle, x), is_half};
}

template <class D, class V>
HWY_INLINE V NaNBeyondOne(D d, V x, V result) {
  return hn::IfThenElse(hn::Gt(hn::Abs(x), hn::Set(d, 1.0)), hn::NaN(d), result);
}

template <class D, class V>
HWY_INLINE V Asin(D d, V x) {
  const auto [angle, is_half] = SplitArcSine(d, x);
  const V quarter = hn::CopySignToAbs(hn::Set(d, coefficients::kPi / 2), x);
  const V beyond = Fused(d, angle, hn::Set(d, -2.0), quarter);
  return NaNBeyondOne(d, x, hn::IfThenElse(is_half, beyond, angle));
}

template <class D, class V>
HWY_INLINE V Acos(D d, V x) {
  namespace c = coefficients;
  const auto [angle, is_half] = SplitArcSine(d, x);
  const V turn = hn::IfThenElseZero(hn::Lt(x, hn::Zero(d)), hn::Set(d, c::kPi));
  const V beyond = Fused(d, angle, hn::Set(d, 2.0), turn);
  const V near = hn::Sub(hn::Set(d, c::kPi / 2), angle);
  return NaNBeyondOne(d, x, hn::IfThenElse(is_half, beyond, near));
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FLOAT32_TRIGONOMETRIC_INL_H_
