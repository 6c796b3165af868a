#include "detent/kernels/functions.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "detent/core/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/functions.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/kernels/elementary-inl.h"
#include "detent/kernels/interleaved-inl.h"
#include "detent/kernels/lanes-inl.h"
#include "detent/kernels/single_exp-inl.h"
#include "detent/kernels/trigonometric-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

using Floats = hn::Rebind<float, Doubles>;
using Vec = hn::VFromD<Doubles>;

/// Below it x times a share that falls like exp(x) is 0 in float32, at minus infinity too.
HWY_INLINE Vec CutBelow(Vec x) { return hn::Max(x, hn::Set(Doubles(), -1000.0)); }

HWY_INLINE Vec Mish(Vec x) {
  const Doubles d;
  const Vec two = hn::Set(d, 2.0);
  const Vec power = Exp(d, hn::Min(x, hn::Set(d, 300.0)));
  const Vec product = hn::Mul(power, hn::Add(power, two));
  return hn::Mul(x, hn::Div(product, hn::Add(product, two)));
}

HWY_INLINE Vec GeluTanh(Vec x) {
  const Doubles d;
  constexpr double kTwiceRoot = 1.5957691216057308;  // 2 sqrt(2 / pi)
  const Vec cubic = Fused(d, hn::Mul(hn::Set(d, 0.044715), hn::Mul(x, x)), x, x);
  return hn::Mul(x, Sigmoid(d, hn::Mul(hn::Set(d, kTwiceRoot), cubic)));
}

/// max(x, 0) - t P(N(0, 1) > t), where t = |x|. What is left when x^2 is rounded goes into exp(-x^2 / 2), so
/// that the tail has its precision.
HWY_INLINE hn::VFromD<Singles> Gelu(hn::VFromD<Singles> x) {
  namespace c = coefficients;
  const Singles d;
  const auto t = hn::Abs(x);
  const auto positive = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  const auto place = hn::Div(t, hn::Add(t, hn::Set(d, c::kFloatTailMiddle)));
  const auto minus_half = hn::Set(d, -0.5F);
  const auto square = hn::Mul(x, x);
  const auto left = Fused(d, x, x, hn::Neg(square));
  const auto [r, power] = ReduceExp(d, hn::Mul(minus_half, square));
  const auto rest = ExpRest(d, Fused(d, left, minus_half, r));
  const auto tail = hn::Mul(place, Polynomial(d, place, c::kFloatTail));
  const auto result = Fused(d, hn::Neg(Fused(d, tail, rest, tail)), power, positive);
  return hn::IfThenElse(hn::Gt(t, hn::Set(d, c::kFloatMostTail)), positive, result);
}

/// x / (1 + exp(-x)); below 0 x exp(x) / (1 + exp(x)), in which nothing overflows. x is at least
/// kFloatLeastExp, or NaN, which the numerator keeps.
HWY_INLINE hn::VFromD<Singles> Silu(hn::VFromD<Singles> x) {
  namespace c = coefficients;
  using V = hn::VFromD<Singles>;
  const Singles d;
  const V one = hn::Set(d, 1.0F);
  const auto [r, power] = ReduceExp(d, hn::Max(hn::Neg(hn::Abs(x)), hn::Set(d, c::kFloatLeastExp)));
  const V exponential = Fused(d, ExpRest(d, r), power, power);
  const V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, exponential), x);
  return hn::Div(numerator, hn::Add(one, exponential));
}

HWY_INLINE Vec Softplus(const ElementFunction& f, Vec x) {
  const Doubles d;
  const Vec beta = hn::Set(d, f.a);
  const Vec scaled = hn::Mul(beta, x);
  const Vec curve = hn::Div(LogOfOneAnd(d, Exp(d, scaled)), beta);
  return hn::IfThenElse(hn::Gt(scaled, hn::Set(d, f.b)), x, curve);
}

HWY_INLINE Vec Elu(const ElementFunction& f, Vec x) {
  const Doubles d;
  const Vec curve = hn::Mul(hn::Set(d, f.b), Expm1(d, hn::Mul(hn::Set(d, f.c), x)));
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Mul(hn::Set(d, f.a), x), curve);
}

template <class Function>
HWY_INLINE void ForEach(const float* x, float* y, size_t count, Function function) {
  const Doubles d;
  const Floats df;
  const size_t lanes = hn::Lanes(d);
  const auto compute = [&](const float* from, float* to) HWY_ATTR {
    const Vec value = hn::PromoteTo(d, hn::LoadU(df, from));
    const Vec result = hn::IfThenElse(hn::IsNaN(value), value, function(value));
    hn::StoreU(RoundToFloat(df, result), df, to);
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) compute(x + i, y + i);
  if (i == count) return;
  float rest[hn::MaxLanes(d)] = {};
  std::copy_n(x + i, count - i, rest);
  compute(rest, rest);
  std::copy_n(rest, count - i, y + i);
}

/// Far below 0, where exp(x) has few places in float32 but x exp(x) all, in double.
void ApplySilu(const float* x, float* y, size_t count) {
  ForEachSixteen(count, [&](size_t first, auto part) HWY_ATTR {
    const Singles d;
    const auto least = hn::Set(d, coefficients::kFloatLeastExp);
    float far_below[kSumLanes];
    bool any_below = false;
    for (size_t v = 0; v < kSumLanes; v += hn::MaxLanes(d))
      any_below = any_below || !hn::AllFalse(d, hn::Lt(part.Load(d, x + first + v, v, 0), least));
    if (any_below) {
      std::fill_n(far_below, kSumLanes, 0.0F);
      ForEach(x + first, far_below, std::min(kSumLanes, count - first), [](Vec value) HWY_ATTR {
        const Vec cut = CutBelow(value);
        return hn::Mul(cut, Sigmoid(Doubles(), cut));
      });
    }
    for (size_t v = 0; v < kSumLanes; v += hn::MaxLanes(d)) {
      const auto value = part.Load(d, x + first + v, v, 0);
      auto result = Silu(value);
      if (any_below) result = hn::IfThenElse(hn::Lt(value, least), hn::LoadU(d, far_below + v), result);
      part.Store(result, d, y + first + v, v);
    }
  });
}

/// Adding 2^23 leaves no place for a fraction: the sum is rounded to the nearest integer, of two to the even
/// one.
HWY_INLINE hn::VFromD<Singles> NearestEven(hn::VFromD<Singles> x) {
  const Singles d;
  const auto most = hn::Set(d, 0x1p23F);
  const auto size = hn::Abs(x);
  const auto rounded = hn::CopySignToAbs(hn::Sub(hn::Add(size, most), most), x);
  return hn::IfThenElse(hn::Lt(size, most), rounded, x);
}

/// Highway's emulation loses the sign of zeros.
HWY_INLINE hn::VFromD<Singles> RoundDown(hn::VFromD<Singles> x) {
  const Singles d;
  const auto nearest = NearestEven(x);
  const auto one_above = hn::IfThenElseZero(hn::Gt(nearest, x), hn::Set(d, 1.0F));
  return hn::CopySign(hn::Sub(nearest, one_above), x);
}

/// Below 3, where the sum is at most 6.
HWY_INLINE hn::VFromD<Singles> Hardswish(hn::VFromD<Singles> x) {
  const Singles d;
  const auto three = hn::Set(d, 3.0F);
  const auto share = hn::Max(hn::Add(x, three), hn::Zero(d));
  return hn::IfThenElse(hn::Lt(x, three), hn::Div(hn::Mul(x, share), hn::Set(d, 6.0F)), x);
}

HWY_INLINE hn::VFromD<Singles> Sign(hn::VFromD<Singles> x) {
  const Singles d;
  const auto is_zero_or_nan = hn::Not(hn::Gt(hn::Abs(x), hn::Zero(d)));
  return hn::IfThenElse(is_zero_or_nan, x, hn::CopySign(hn::Set(d, 1.0F), x));
}

/// Kinds that are operations in float32.
void ApplyExact(ElementFunction::Kind kind, const float* x, float* y, size_t count) {
  using Kind = ElementFunction::Kind;
  const Singles d;
  const auto one = hn::Set(d, 1.0F);
  const auto each = [&](auto function) HWY_ATTR {
    MapSingles(x, y, count, [&](auto v, auto) HWY_ATTR { return function(v); });
  };
  switch (kind) {
    case Kind::kAbs:
      return each([](auto v) HWY_ATTR { return hn::Abs(v); });
    case Kind::kNegative:
      return each([](auto v) HWY_ATTR { return hn::Neg(v); });
    case Kind::kSign:
      return each([](auto v) HWY_ATTR { return Sign(v); });
    case Kind::kSqrt:
      return each([](auto v) HWY_ATTR { return hn::Sqrt(v); });
    case Kind::kReciprocal:
      return each([&](auto v) HWY_ATTR { return hn::Div(one, v); });
    case Kind::kFloor:
      return each([](auto v) HWY_ATTR { return RoundDown(v); });
    case Kind::kCeil:
      return each([](auto v) HWY_ATTR { return hn::Neg(RoundDown(hn::Neg(v))); });
    case Kind::kRound:
      return each([](auto v) HWY_ATTR { return NearestEven(v); });
    case Kind::kSoftsign:
      return each([&](auto v) HWY_ATTR { return hn::Div(v, hn::Add(hn::Abs(v), one)); });
    case Kind::kHardswish:
      return each([](auto v) HWY_ATTR { return Hardswish(v); });
    default:
      return;
  }
}

template <class Function>
HWY_INLINE void ApplyToRow(Function function, const float* x, float* y, size_t count) {
  Apply(
      function, static_cast<int64_t>(count), [&](const auto& at) HWY_ATTR { return at.Load(x); },
      [&](HalfVec result, const auto& at) HWY_ATTR { at.Store(result, y); });
}

void ApplyFunction(const ElementFunction& f, const float* x, float* y, size_t count) {
  using Kind = ElementFunction::Kind;
  const Doubles d;
  const auto each = [&](auto function) HWY_ATTR { ForEach(x, y, count, function); };
  switch (f.kind) {
    case Kind::kExp:
      return each([&](Vec v) HWY_ATTR { return Exp(d, v); });
    case Kind::kLog:
      return each([&](Vec v) HWY_ATTR { return Log(d, v); });
    case Kind::kErf:
      return each([&](Vec v) HWY_ATTR { return Erf(d, v); });
    case Kind::kTanh:
      return ApplyToRow(TanhFunction(), x, y, count);
    case Kind::kSigmoid:
      return ApplyToRow(SigmoidFunction(), x, y, count);
    case Kind::kSilu:
      return ApplySilu(x, y, count);
    case Kind::kMish:
      return each([&](Vec v) HWY_ATTR {
        // -inf times tanh(0), as ONNX and PyTorch have it.
        const auto is_lowest = hn::Eq(v, hn::Set(d, -std::numeric_limits<double>::infinity()));
        return hn::IfThenElse(is_lowest, hn::Set(d, std::numeric_limits<double>::quiet_NaN()),
                              Mish(CutBelow(v)));
      });
    case Kind::kGelu:
      return MapSingles(x, y, count, [&](auto v, auto) HWY_ATTR { return Gelu(v); });
    case Kind::kGeluTanh:
      return each([&](Vec v) HWY_ATTR { return GeluTanh(CutBelow(v)); });
    case Kind::kSoftplus:
      return each([&](Vec v) HWY_ATTR { return Softplus(f, v); });
    case Kind::kElu:
      return each([&](Vec v) HWY_ATTR { return Elu(f, v); });
    case Kind::kSin:
      return each([&](Vec v) HWY_ATTR { return Sin(d, v); });
    case Kind::kCos:
      return each([&](Vec v) HWY_ATTR { return Cos(d, v); });
    case Kind::kTan:
      return each([&](Vec v) HWY_ATTR { return Tan(d, v); });
    case Kind::kAsin:
      return each([&](Vec v) HWY_ATTR { return Asin(d, v); });
    case Kind::kAcos:
      return each([&](Vec v) HWY_ATTR { return Acos(d, v); });
    case Kind::kAtan:
      return each([&](Vec v) HWY_ATTR { return Atan(d, v); });
    case Kind::kSinh:
      return each([&](Vec v) HWY_ATTR { return Sinh(d, v); });
    case Kind::kCosh:
      return each([&](Vec v) HWY_ATTR { return Cosh(d, v); });
    case Kind::kAsinh:
      return each([&](Vec v) HWY_ATTR { return Asinh(d, v); });
    case Kind::kAcosh:
      return each([&](Vec v) HWY_ATTR { return Acosh(d, v); });
    case Kind::kAtanh:
      return each([&](Vec v) HWY_ATTR { return Atanh(d, v); });
    default:
      return ApplyExact(f.kind, x, y, count);
  }
}

HWY_INLINE Vec Power(Vec base, Vec exponent) {
  const Doubles d;
  const Vec one = hn::Set(d, 1.0);
  const Vec zero = hn::Zero(d);
  const Vec size = hn::Abs(base);
  Vec result = Exp(d, hn::Mul(exponent, Log(d, size)));
  // Products of a number with itself are exact in double.
  result = hn::IfThenElse(hn::Eq(exponent, hn::Set(d, 2.0)), hn::Mul(base, base), result);
  const auto is_whole = hn::Eq(hn::Floor(exponent), exponent);
  const Vec half = hn::Mul(exponent, hn::Set(d, 0.5));
  const auto is_odd = hn::AndNot(hn::Eq(hn::Floor(half), half), is_whole);
  // The sign bit of the base, so that zeros have theirs.
  const auto is_negative = hn::Lt(hn::CopySignToAbs(one, base), zero);
  result = hn::IfThenElse(hn::And(is_negative, is_odd), hn::Neg(result), result);
  const auto has_no_root =
      hn::AndNot(is_whole, hn::And(hn::Lt(base, zero), hn::Lt(size, hn::Set(d, HUGE_VAL))));
  result = hn::IfThenElse(has_no_root, hn::NaN(d), result);
  const auto is_nan = hn::Or(hn::IsNaN(base), hn::IsNaN(exponent));
  result = hn::IfThenElse(is_nan, hn::NaN(d), result);
  const auto is_endless = hn::Eq(hn::Abs(exponent), hn::Set(d, HUGE_VAL));
  result = hn::IfThenElse(hn::And(hn::Eq(size, one), is_endless), one, result);
  return hn::IfThenElse(hn::Or(hn::Eq(exponent, zero), hn::Eq(base, one)), one, result);
}

void ApplyPower(const float* base, size_t base_step, const float* exponent, size_t exponent_step, float* y,
                size_t count) {
  const Doubles d;
  const Floats df;
  const size_t lanes = hn::Lanes(d);
  float a[hn::MaxLanes(d)] = {};
  float b[hn::MaxLanes(d)] = {};
  float results[hn::MaxLanes(d)];
  for (size_t i = 0; i < count; i += lanes) {
    const size_t left = std::min(lanes, count - i);
    for (size_t lane = 0; lane < left; ++lane) {
      a[lane] = base[(i + lane) * base_step];
      b[lane] = exponent[(i + lane) * exponent_step];
    }
    const Vec power = Power(hn::PromoteTo(d, hn::LoadU(df, a)), hn::PromoteTo(d, hn::LoadU(df, b)));
    hn::StoreU(RoundToFloat(df, power), df, results);
    std::copy_n(results, left, y + i);
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(ApplyFunction);
HWY_EXPORT(ApplyPower);

namespace {
constexpr int64_t kGrain = 4096;
}  // namespace

void apply_function(const ElementFunction& function, std::span<const float> values,
                    std::span<float> results) {
  parallel_for(std::ssize(values), kGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(ApplyFunction)
    (function, values.data() + begin, results.data() + begin, static_cast<size_t>(end - begin));
  });
}

void apply_power(std::span<const float> base, std::span<const float> exponent, std::span<float> results) {
  const size_t base_step = base.size() == 1 ? 0 : 1;
  const size_t exponent_step = exponent.size() == 1 ? 0 : 1;
  parallel_for(std::ssize(results), kGrain, [&](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin);
    HWY_DYNAMIC_DISPATCH(ApplyPower)
    (base.data() + first * base_step, base_step, exponent.data() + first * exponent_step, exponent_step,
     results.data() + first, static_cast<size_t>(end) - first);
  });
}

}  // namespace detent
#endif  // HWY_ONCE
