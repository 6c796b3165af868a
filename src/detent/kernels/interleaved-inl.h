// Sigmoid and tanh of rows of float32, several vectors at once and one operation after the other on all of
// them: a processor finds work while a chain waits. The numbers are those of elementary-inl.h, by equal
// operations. Targets other than x86 with fused multiply-add take one vector after the other.

#if defined(DETENT_FLOAT32_INTERLEAVED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FLOAT32_INTERLEAVED_INL_H_
#undef DETENT_FLOAT32_INTERLEAVED_INL_H_
#else
#define DETENT_FLOAT32_INTERLEAVED_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <iterator>

#include <hwy/highway.h>

#include "detent/kernels/coefficients.h"
#include "detent/kernels/elementary-inl.h"
#include "detent/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DoubleVec = hn::VFromD<Doubles>;
using HalfSingles = hn::Rebind<float, Doubles>;
using HalfVec = hn::VFromD<HalfSingles>;

/// Vectors that are computed at once: as many as registers hold beside what a function needs.
#if HWY_ARCH_X86 && HWY_NATIVE_FMA && HWY_TARGET <= HWY_AVX3
constexpr size_t kInterleaved = 8;
#elif HWY_ARCH_X86 && HWY_NATIVE_FMA && HWY_TARGET <= HWY_AVX2
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

constexpr size_t kHalfLanes = hn::MaxLanes(HalfSingles());

/// ElementFunction's (functions.h), of one vector or of several.
struct SigmoidFunction {
  template <size_t N>
  HWY_INLINE void operator()(HalfVec (&values)[N]) const {
    Sigmoids(values);
  }
  HWY_INLINE HalfVec operator()(HalfVec value) const {
    const Doubles d;
    const auto x = hn::PromoteTo(d, value);
    return RoundToFloat(HalfSingles(), hn::IfThenElse(hn::IsNaN(x), x, Sigmoid(d, x)));
  }
};
struct TanhFunction {
  template <size_t N>
  HWY_INLINE void operator()(HalfVec (&values)[N]) const {
    Tanhs(values);
  }
  HWY_INLINE HalfVec operator()(HalfVec value) const {
    const Doubles d;
    const auto x = hn::PromoteTo(d, value);
    return RoundToFloat(HalfSingles(), hn::IfThenElse(hn::IsNaN(x), x, Tanh(d, x)));
  }
};

/// Where a vector of elements lies in rows, or the last of them.
template <class Part>
struct Elements {
  size_t first;
  Part part;

  HWY_INLINE HalfVec Load(const float* row) const { return part.Load(HalfSingles(), row + first, 0, 0); }
  HWY_INLINE HalfVec Sum(const float* a, const float* b) const { return hn::Add(Load(a), Load(b)); }
  HWY_INLINE void Store(HalfVec values, float* row) const {
    part.Store(values, HalfSingles(), row + first, 0);
  }
};

template <class Function, class Part, class Before, class After>
HWY_INLINE void ApplyToOne(Function function, const Elements<Part>& at, Before before, After after) {
  after(function(before(at)), at);
}
template <size_t N, class Function, class Before, class After>
HWY_INLINE void ApplyToSeveral(Function function, size_t first, Before before, After after) {
  HalfVec values[N];
  for (size_t i = 0; i < N; ++i) values[i] = before(Elements<WholeSixteen>{first + i * kHalfLanes, {}});
  function(values);
  for (size_t i = 0; i < N; ++i) after(values[i], Elements<WholeSixteen>{first + i * kHalfLanes, {}});
}

/// A function of `before(elements)`; `after(result, elements)` says what becomes of it.
template <class Function, class Before, class After>
HWY_INLINE void Apply(Function function, int64_t count, Before before, After after) {
  const auto end = static_cast<size_t>(count);
  size_t i = 0;
  if constexpr (kInterleaved > 1) {
    for (; i + kInterleaved * kHalfLanes <= end; i += kInterleaved * kHalfLanes)
      ApplyToSeveral<kInterleaved>(function, i, before, after);
    constexpr size_t kHalf = kInterleaved / 2;
    for (; i + kHalf * kHalfLanes <= end; i += kHalf * kHalfLanes)
      ApplyToSeveral<kHalf>(function, i, before, after);
  }
  for (; i + kHalfLanes <= end; i += kHalfLanes)
    ApplyToOne(function, Elements<WholeSixteen>{i, {}}, before, after);
  if (i < end) ApplyToOne(function, Elements<FirstOfSixteen>{i, {end - i}}, before, after);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FLOAT32_INTERLEAVED_INL_H_
