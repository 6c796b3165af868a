#include "detent/inference/accumulated_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/inference/added_products.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include <bit>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Puts each sum back into the range of the integers.
class IntegerRange {
 public:
  using D = hn::CappedTag<int32_t, 16>;
  using V = hn::Vec<D>;

  explicit IntegerRange(const Accumulator& accumulator)
      : shift_(32 - accumulator.width),
        wraps_(accumulator.overflow == Accumulator::Overflow::kWrap),
        low_(hn::Set(D(), static_cast<int32_t>(-(int64_t{1} << (accumulator.width - 1))))),
        high_(hn::Set(D(), static_cast<int32_t>((int64_t{1} << (accumulator.width - 1)) - 1))) {}

  HWY_INLINE V Added(V factor, V value, V sum, V& overflows) const {
    const V exact = hn::Add(hn::Mul(factor, value), sum);
    const V held = wraps_ ? hn::ShiftRightSame(hn::ShiftLeftSame(exact, shift_), shift_)
                          : hn::Min(hn::Max(exact, low_), high_);
    overflows = hn::Sub(overflows, hn::VecFromMask(D(), hn::Ne(held, exact)));
    return held;
  }

 private:
  int shift_;
  bool wraps_;
  V low_;
  V high_;
};

/// Rounds each sum to the floats. In double, products of two float32 are exact; of an inexact sum the last
/// bit is set (rounding to odd), so that rounding it again gives what rounding the exact one does (Boldo,
/// Melquiond 2008, IEEE Transactions on Computers 57). All that is multiplied here is exact, so that
/// compilers may fuse it with the sum.
class FloatRange {
 public:
  using D = hn::CappedTag<double, 8>;
  using V = hn::Vec<D>;

  explicit FloatRange(const Accumulator& accumulator)
      : least_(hn::Set(D(), accumulator.least_normal())),
        most_(hn::Set(D(), accumulator.largest())),
        // Times 2^e, this has for its last place that of a rounded number with the exponent e.
        unit_(hn::Set(D(), std::ldexp(1.5, 52 - accumulator.fraction_bits()))) {}

  /// An infinite sum is cut off; one that is no number stays none.
  HWY_INLINE V Added(V factor, V value, V before, V& overflows) const {
    const V product = hn::Mul(factor, value);
    const V sum = hn::Add(product, before);
    const V rounded = hn::IfThenElse(hn::IsFinite(sum), Rounded(ToOdd(product, before, sum)), sum);
    const V held = hn::Min(hn::Max(rounded, hn::Neg(most_)), most_);
    const auto is_beyond = hn::Or(hn::Gt(rounded, most_), hn::Lt(rounded, hn::Neg(most_)));
    overflows = hn::Add(overflows, hn::IfThenElseZero(is_beyond, hn::Set(D(), 1.0)));
    return hn::IfThenElse(hn::IsNaN(sum), hn::NaN(D()), held);
  }

 private:
  HWY_INLINE V ToOdd(V a, V b, V sum) const {
    const hn::RebindToUnsigned<D> d_bits;
    const V of_a = hn::Sub(sum, b);
    const V error = hn::Add(hn::Sub(a, of_a), hn::Sub(b, hn::Sub(sum, of_a)));  // Knuth's, exact
    const auto bits = hn::BitCast(d_bits, sum);
    // Towards zero where the sum was rounded away from it.
    const auto was_away = hn::ShiftRight<63>(hn::Xor(bits, hn::BitCast(d_bits, error)));
    const V odd = hn::BitCast(D(), hn::Or(hn::Sub(bits, was_away), hn::Set(d_bits, 1)));
    return hn::IfThenElse(hn::Eq(error, hn::Zero(D())), sum, odd);
  }
  HWY_INLINE V Rounded(V x) const {
    const V exponent = hn::And(x, hn::Inf(D()));
    const V magic = hn::Mul(hn::Max(exponent, least_), unit_);
    return hn::Sub(hn::Add(x, magic), magic);
  }

  V least_;
  V most_;
  V unit_;
};

HWY_INLINE hn::Vec<FloatRange::D> LoadAs(FloatRange::D d, const float* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, FloatRange::D>(), from));
}
HWY_INLINE hn::Vec<IntegerRange::D> LoadAs(IntegerRange::D d, const int32_t* from) {
  return hn::LoadU(d, from);
}
HWY_INLINE void StoreAs(hn::Vec<FloatRange::D> v, FloatRange::D /*d*/, float* to) {
  const hn::Rebind<float, FloatRange::D> d_float;
  hn::StoreU(hn::DemoteTo(d_float, v), d_float, to);
}
HWY_INLINE void StoreAs(hn::Vec<IntegerRange::D> v, IntegerRange::D d, int32_t* to) { hn::StoreU(v, d, to); }

/// Chains of additions are slow by themselves: several at once.
template <class Range, class T>
AccumulatorOverflows AddProducts(const Accumulator& accumulator, std::span<const T> factors, const T* values,
                                 int64_t columns, T* sums) {
  constexpr size_t kVectors = 4;
  using Number = hn::TFromD<typename Range::D>;
  const typename Range::D d;
  const Range range(accumulator);
  const size_t lanes = hn::Lanes(d);
  AccumulatorOverflows total;
  for (size_t i = 0; i < static_cast<size_t>(columns); i += kVectors * lanes) {
    typename Range::V sum[kVectors];
    typename Range::V overflows[kVectors];
    for (size_t v = 0; v < kVectors; ++v) sum[v] = overflows[v] = hn::Zero(d);
    const T* of_factor = values + i;
    for (const T factor : factors) {
      const auto x = hn::Set(d, static_cast<Number>(factor));
      for (size_t v = 0; v < kVectors; ++v)
        sum[v] = range.Added(x, LoadAs(d, of_factor + v * lanes), sum[v], overflows[v]);
      of_factor += columns;
    }
    for (size_t v = 0; v < kVectors; ++v) {
      StoreAs(sum[v], d, sums + i + v * lanes);
      total.additions += static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(d, overflows[v])));
      total.sums += static_cast<int64_t>(hn::CountTrue(d, hn::Gt(overflows[v], hn::Zero(d))));
    }
  }
  return total;
}

AccumulatorOverflows AddIntegers(const Accumulator& accumulator, std::span<const int32_t> factors,
                                 const int32_t* values, int64_t columns, int32_t* sums) {
  return AddProducts<IntegerRange>(accumulator, factors, values, columns, sums);
}
AccumulatorOverflows AddFloats(const Accumulator& accumulator, std::span<const float> factors,
                               const float* values, int64_t columns, float* sums) {
  return AddProducts<FloatRange>(accumulator, factors, values, columns, sums);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(AddIntegers);
HWY_EXPORT(AddFloats);

AccumulatorOverflows add_products(const Accumulator& accumulator, std::span<const int32_t> factors,
                                  const int32_t* values, int64_t columns, int32_t* sums) {
  return HWY_DYNAMIC_DISPATCH(AddIntegers)(accumulator, factors, values, columns, sums);
}
AccumulatorOverflows add_products(const Accumulator& accumulator, std::span<const float> factors,
                                  const float* values, int64_t columns, float* sums) {
  return HWY_DYNAMIC_DISPATCH(AddFloats)(accumulator, factors, values, columns, sums);
}

}  // namespace detent
#endif  // HWY_ONCE
