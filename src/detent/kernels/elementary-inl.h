// Functions of double lanes that hold float32 values: out of +, -, *, /, square roots and fused multiply-add
// alone, so that every target gives the same bits. Their relative errors are below 2^-32, so results that are
// rounded to float32 are within 0.51 units in the last place. Lanes that are NaN are the caller's
// (functions.cc).

#if defined(DETENT_FLOAT32_ELEMENTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FLOAT32_ELEMENTARY_INL_H_
#undef DETENT_FLOAT32_ELEMENTARY_INL_H_
#else
#define DETENT_FLOAT32_ELEMENTARY_INL_H_
#endif

#include <bit>
#include <cstdint>

#include <hwy/highway.h>

#include "detent/core/fused-inl.h"
#include "detent/kernels/coefficients.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rounded to float32. Highway's portable targets cut to finite values instead.
template <class DF, class V>
HWY_INLINE hn::VFromD<DF> RoundToFloat(DF df, V values) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  const hn::Rebind<double, DF> d;
  double from[hn::MaxLanes(d)];
  float to[hn::MaxLanes(d)];
  hn::StoreU(values, d, from);
  for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = static_cast<float>(from[i]);
  return hn::LoadU(df, to);
#else
  return hn::DemoteTo(df, values);
#endif
}

template <class D, class V, class T, size_t N>
HWY_INLINE V Polynomial(D d, V x, const T (&terms)[N]) {
  V sum = hn::Set(d, terms[0]);
  for (size_t i = 1; i < N; ++i) sum = Fused(d, sum, x, hn::Set(d, terms[i]));
  return sum;
}

/// exp(x) = (1 + rest) * power
template <class V>
struct ExpParts {
  V rest;
  V power;
};

template <class D, class V>
HWY_INLINE ExpParts<V> SplitExp(D d, V x) {
  namespace c = coefficients;
  const hn::RebindToUnsigned<D> du;
  x = hn::Min(hn::Max(x, hn::Set(d, -c::kExpMost)), hn::Set(d, c::kExpMost));
  const V rounded = Fused(d, x, hn::Set(d, c::kLog2E), hn::Set(d, c::kRounder));
  const V n = hn::Sub(rounded, hn::Set(d, c::kRounder));
  const V r = Fused(d, n, hn::Set(d, -c::kLn2), x);
  const auto biased = hn::Add(hn::BitCast(du, rounded), hn::Set(du, uint64_t{1023}));
  return {Fused(d, hn::Mul(r, r), Polynomial(d, r, c::kExp), r), hn::BitCast(d, hn::ShiftLeft<52>(biased))};
}

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  const auto [rest, power] = SplitExp(d, x);
  return Fused(d, rest, power, power);
}

template <class D, class V>
HWY_INLINE V Expm1(D d, V x) {
  const auto [rest, power] = SplitExp(d, x);
  return Fused(d, rest, power, hn::Sub(power, hn::Set(d, 1.0)));
}

/// x = 2^exponent * m, where m lies around 1, between the roots of 1 / 2 and of 2.
template <class V>
struct LogParts {
  V exponent;
  V m;
};

/// x is positive and finite.
template <class D, class V>
HWY_INLINE LogParts<V> SplitLog(D d, V x) {
  namespace c = coefficients;
  const hn::RebindToUnsigned<D> du;
  constexpr uint64_t kRoot = std::bit_cast<uint64_t>(c::kHalfRoot);
  constexpr uint64_t kOne = std::bit_cast<uint64_t>(1.0);
  constexpr double kTwoTo52 = 0x1p52;
  const auto bits = hn::Add(hn::BitCast(du, x), hn::Set(du, kOne - kRoot));
  const auto exponent = hn::Or(hn::ShiftRight<52>(bits), hn::Set(du, std::bit_cast<uint64_t>(kTwoTo52)));
  const auto fraction = hn::And(bits, hn::Set(du, (uint64_t{1} << 52) - 1));
  return {hn::Sub(hn::BitCast(d, exponent), hn::Set(d, kTwoTo52 + 1023)),
          hn::BitCast(d, hn::Add(fraction, hn::Set(du, kRoot)))};
}

/// exponent * ln(2) + log(1 + f)
template <class D, class V>
HWY_INLINE V LogOf(D d, V exponent, V f) {
  namespace c = coefficients;
  const V s = hn::Div(f, hn::Add(f, hn::Set(d, 2.0)));
  const V square = hn::Mul(s, s);
  const V twice = hn::Add(s, s);
  const V log = Fused(d, hn::Mul(twice, square), Polynomial(d, square, c::kLog), twice);
  return Fused(d, exponent, hn::Set(d, c::kLn2), log);
}

/// As IEEE 754 says of 0, of negative values and of infinity.
template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  const V zero = hn::Zero(d);
  const V infinity = hn::Set(d, HUGE_VAL);
  const auto [exponent, m] = SplitLog(d, x);
  V log = LogOf(d, exponent, hn::Sub(m, hn::Set(d, 1.0)));
  log = hn::IfThenElse(hn::Eq(x, infinity), infinity, log);
  log = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), log);
  return hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), log);
}

/// log(1 + x) of a positive x, however small.
template <class D, class V>
HWY_INLINE V LogOfOneAnd(D d, V x) {
  const V one = hn::Set(d, 1.0);
  const auto [exponent, m] = SplitLog(d, hn::Add(x, one));
  const V f = hn::IfThenElse(hn::Eq(exponent, hn::Zero(d)), x, hn::Sub(m, one));
  return LogOf(d, exponent, f);
}

template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

template <class D, class V>
HWY_INLINE V Tanh(D d, V x) {
  const V less_one = Expm1(d, hn::Add(x, x));
  return hn::CopySign(hn::Div(less_one, hn::Add(less_one, hn::Set(d, 2.0))), x);
}

/// erfc(t) of t >= 0
template <class D, class V>
HWY_INLINE V Erfc(D d, V t) {
  namespace c = coefficients;
  t = hn::Min(t, hn::Set(d, c::kErfcMost));
  const V middle = hn::Set(d, c::kErfcMiddle);
  const V place = hn::Div(hn::Sub(t, middle), hn::Add(t, middle));
  return hn::Mul(Exp(d, hn::Neg(hn::Mul(t, t))), Polynomial(d, place, c::kErfc));
}

template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  const V t = hn::Abs(x);
  const V square = hn::Mul(x, x);
  const V near_zero = hn::Mul(x, Polynomial(d, square, coefficients::kErf));
  const V beyond = hn::CopySignToAbs(hn::Sub(hn::Set(d, 1.0), Erfc(d, t)), x);
  return hn::IfThenElse(hn::Lt(t, hn::Set(d, 0.5)), near_zero, beyond);
}

/// (e + e / (e + 1)) / 2, where e = exp(|x|) - 1: nothing cancels near 0
template <class D, class V>
HWY_INLINE V Sinh(D d, V x) {
  const V less_one = Expm1(d, hn::Abs(x));
  const V twice = hn::Add(less_one, hn::Div(less_one, hn::Add(less_one, hn::Set(d, 1.0))));
  return hn::CopySignToAbs(hn::Mul(twice, hn::Set(d, 0.5)), x);
}

template <class D, class V>
HWY_INLINE V Cosh(D d, V x) {
  const V power = Exp(d, hn::Abs(x));
  return hn::Mul(hn::Add(power, hn::Div(hn::Set(d, 1.0), power)), hn::Set(d, 0.5));
}

/// log(1 + t + t^2 / (1 + sqrt(1 + t^2))), where t = |x|
template <class D, class V>
HWY_INLINE V Asinh(D d, V x) {
  const V one = hn::Set(d, 1.0);
  const V infinity = hn::Set(d, HUGE_VAL);
  const V t = hn::Abs(x);
  const V square = hn::Mul(t, t);
  const V rest = hn::Div(square, hn::Add(one, hn::Sqrt(hn::Add(one, square))));
  const V result = LogOfOneAnd(d, hn::Add(t, rest));
  return hn::CopySignToAbs(hn::IfThenElse(hn::Eq(t, infinity), infinity, result), x);
}

/// log(1 + t + sqrt(t (x + 1))), where t = x - 1, which is exact near 1
template <class D, class V>
HWY_INLINE V Acosh(D d, V x) {
  const V one = hn::Set(d, 1.0);
  const V infinity = hn::Set(d, HUGE_VAL);
  const V t = hn::Sub(x, one);
  V result = LogOfOneAnd(d, hn::Add(t, hn::Sqrt(hn::Mul(t, hn::Add(x, one)))));
  result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
  return hn::IfThenElse(hn::Lt(x, one), hn::NaN(d), result);
}

/// log(1 + 2 t / (1 - t)) / 2, where t = |x|
template <class D, class V>
HWY_INLINE V Atanh(D d, V x) {
  const V one = hn::Set(d, 1.0);
  const V t = hn::Abs(x);
  const V twice = LogOfOneAnd(d, hn::Div(hn::Add(t, t), hn::Sub(one, t)));
  V result = hn::Mul(twice, hn::Set(d, 0.5));
  result = hn::IfThenElse(hn::Eq(t, one), hn::Set(d, HUGE_VAL), result);
  return hn::IfThenElse(hn::Gt(t, one), hn::NaN(d), hn::CopySignToAbs(result, x));
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FLOAT32_ELEMENTARY_INL_H_
