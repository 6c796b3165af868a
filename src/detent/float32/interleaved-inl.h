// Sigmoid and tanh of several vectors at once, one operation after the other on all of them: a processor
// finds work while a chain waits. The numbers are those of elementary-inl.h, by equal operations. For targets
// of x86 with fused multiply-add.

#if defined(DETENT_FLOAT32_INTERLEAVED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FLOAT32_INTERLEAVED_INL_H_
#undef DETENT_FLOAT32_INTERLEAVED_INL_H_
#else
#define DETENT_FLOAT32_INTERLEAVED_INL_H_
#endif

#include <cstddef>
#include <iterator>

#include <hwy/highway.h>

#include "detent/float32/coefficients.h"
#include "detent/float32/elementary-inl.h"
#include "detent/float32/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DoubleVec = hn::VFromD<Doubles>;
using HalfSingles = hn::Rebind<float, Doubles>;
using HalfVec = hn::VFromD<HalfSingles>;

/// Vectors that are computed at once: as many as registers hold beside what a function needs.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr size_t kInterleaved = 8;
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
constexpr size_t kInterleaved = 4;
#else
constexpr size_t kInterleaved = 1;
#endif

/// exp(x) = (1 + rest) * power, or exp(-x). NaN stays NaN in `rest`.
template <bool kNegated, size_t N>
HWY_INLINE void SplitExps(const DoubleVec (&x)[N], DoubleVec (&rest)[N], DoubleVec (&power)[N]) {
  namespace c = coefficients;
  const Doubles d;
  const hn::RebindToUnsigned<Doubles> du;
  constexpr double kSign = kNegated ? -1 : 1;
  const DoubleVec rounder = hn::Set(d, c::kBiasedRounder);
  DoubleVec r[N];
  DoubleVec sum[N];
#define DETENT_EACH for (size_t i = 0; i < N; ++i)
  // Instructions of x86 for the larger and the smaller give their second operand where one is NaN.
  DETENT_EACH r[i] = hn::Max(hn::Set(d, -c::kExpMost), x[i]);
  DETENT_EACH r[i] = hn::Min(hn::Set(d, c::kExpMost), r[i]);
  DETENT_EACH power[i] = hn::MulAdd(r[i], hn::Set(d, kSign * c::kLog2E), rounder);
  DETENT_EACH rest[i] = hn::Sub(power[i], rounder);
  DETENT_EACH power[i] = hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(du, power[i])));
  const DoubleVec less_ln2 = hn::Set(d, -c::kLn2);
  DETENT_EACH r[i] = kNegated ? hn::MulSub(rest[i], less_ln2, r[i]) : hn::MulAdd(rest[i], less_ln2, r[i]);
  DETENT_EACH sum[i] = hn::MulAdd(hn::Set(d, c::kExp[0]), r[i], hn::Set(d, c::kExp[1]));
  for (size_t term = 2; term < std::size(c::kExp); ++term)
    DETENT_EACH sum[i] = hn::MulAdd(sum[i], r[i], hn::Set(d, c::kExp[term]));
  DETENT_EACH rest[i] = hn::Mul(r[i], r[i]);
  DETENT_EACH rest[i] = hn::MulAdd(rest[i], sum[i], r[i]);
}

template <size_t N>
HWY_INLINE void Sigmoids(HalfVec (&values)[N]) {
  const Doubles d;
  const DoubleVec one = hn::Set(d, 1.0);
  DoubleVec x[N];
  DoubleVec power[N];
  DoubleVec rest[N];
  DETENT_EACH x[i] = hn::PromoteTo(d, values[i]);
  SplitExps<true>(x, rest, power);
  DETENT_EACH rest[i] = hn::MulAdd(rest[i], power[i], power[i]);
  DETENT_EACH rest[i] = hn::Add(one, rest[i]);
  DETENT_EACH rest[i] = hn::Div(one, rest[i]);
  DETENT_EACH values[i] = RoundToFloat(HalfSingles(), rest[i]);
}

template <size_t N>
HWY_INLINE void Tanhs(HalfVec (&values)[N]) {
  const Doubles d;
  DoubleVec x[N];
  DoubleVec power[N];
  DoubleVec rest[N];
  DETENT_EACH x[i] = hn::PromoteTo(d, values[i]);
  DETENT_EACH x[i] = hn::Add(x[i], x[i]);
  SplitExps<false>(x, rest, power);
  DETENT_EACH x[i] = hn::Sub(power[i], hn::Set(d, 1.0));
  DETENT_EACH rest[i] = hn::MulAdd(rest[i], power[i], x[i]);
  DETENT_EACH x[i] = hn::Add(rest[i], hn::Set(d, 2.0));
  DETENT_EACH rest[i] = hn::Div(rest[i], x[i]);
  DETENT_EACH values[i] = hn::CopySign(RoundToFloat(HalfSingles(), rest[i]), values[i]);
}
#undef DETENT_EACH

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FLOAT32_INTERLEAVED_INL_H_
