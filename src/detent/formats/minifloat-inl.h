// Per-target include guard
#if defined(DETENT_FORMATS_MINIFLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_MINIFLOAT_INL_H_
#undef DETENT_FORMATS_MINIFLOAT_INL_H_
#else
#define DETENT_FORMATS_MINIFLOAT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "detent/formats/minifloat_grid.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// For |x| with exponent e (at least min_exponent), float32 arithmetic itself rounds to the step 2^(e - M),
/// ties to even: 2^(e - M + 23) has that step as its last bit, |x| + 2^(e - M + 23) stays in the same binade
/// since M <= 22, and subtracting it again is exact.
///
/// Where e - M + 23 may leave float32's exponents, or values are float32 subnormals, the same is done 2^32
/// above (below 1) or beneath (from 1 on). Where min_exponent is that of float32, the subnormals are too:
/// then the bits are rounded as an integer, whose carry is the next exponent.
template <class D>
class MinifloatKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

 public:
  MinifloatKernel(D d, const MinifloatParameters& p)
      : largest_(hn::Set(d, p.grid.largest)),
        overflow_from_(hn::Set(d, p.overflow_from)),
        overflow_value_(hn::Set(d, p.overflow_value)),
        to_addend_(hn::Set(DI(), (23 - p.grid.mantissa_bits) * (1 << 23))) {
    const int lowest = p.grid.min_exponent;
    dropped_bits_ = 23 - p.grid.mantissa_bits;
    one_zero_ = p.grid.one_zero;
    as_bits_ = lowest == -126;
    saturates_ = p.overflow_value == p.grid.largest;
    wide_ = lowest < -126 || !(p.grid.largest < power_of_two(104 + p.grid.mantissa_bits));
    min_exponent_ = hn::Set(DI(), ExponentBits(lowest));
    min_exponent_below_one_ = hn::Set(DI(), ExponentBits(std::min(lowest, 40) + kShift));
    min_exponent_from_one_ = hn::Set(DI(), ExponentBits(lowest - kShift));
  }

  /// Calls visit(kernel) with one that gives +0 only, if that is all there is.
  template <class Visit>
  HWY_INLINE void Specialise(const Visit& visit) const {
    if (!one_zero_) return visit(*this);
    visit([kernel = *this](D d, V x, uint64_t /*index*/) HWY_ATTR {
      return hn::IfThenElse(hn::IsNaN(x), x, hn::Add(kernel.OfNumber(d, x), hn::Zero(d)));
    });
  }

  V operator()(D d, V x, uint64_t /*index*/) const { return hn::IfThenElse(hn::IsNaN(x), x, OfNumber(d, x)); }

 private:
  static constexpr int kShift = 32;

  /// The value of an x that is not NaN.
  HWY_INLINE V OfNumber(D d, V x) const {
    const V magnitude = hn::Abs(x);
    const V held = hn::Min(magnitude, largest_);
    const V rounded = as_bits_ ? RoundBits(d, held)
                      : wide_  ? RoundWide(d, held)
                               : Round(d, held, min_exponent_);
    const V result =
        saturates_ ? rounded : hn::IfThenElse(hn::Ge(magnitude, overflow_from_), overflow_value_, rounded);
    return hn::CopySignToAbs(result, x);
  }

  /// The bits of 2^exponent, or of 2^-126 where that is larger.
  static int32_t ExponentBits(int exponent) { return std::max(exponent + 127, 1) * (1 << 23); }

  V Round(D d, V magnitude, VI min_exponent) const {
    const DI di;
    const VI exponent = hn::Max(hn::And(hn::BitCast(di, magnitude), hn::Set(di, 0x7F800000)), min_exponent);
    const V large = hn::BitCast(d, hn::Add(exponent, to_addend_));
    return hn::Sub(hn::Add(magnitude, large), large);
  }

  V RoundBits(D d, V magnitude) const {
    const DI di;
    const VI bits = hn::BitCast(di, magnitude);
    const VI one = hn::Set(di, 1);
    const VI last = hn::And(hn::ShiftRightSame(bits, dropped_bits_), one);
    const VI almost_half = hn::Set(di, (1 << (dropped_bits_ - 1)) - 1);
    const VI rounded = hn::Add(bits, hn::Add(almost_half, last));
    return hn::BitCast(d, hn::And(rounded, hn::Set(di, -(1 << dropped_bits_))));
  }

  V RoundWide(D d, V magnitude) const {
    const auto below_one = hn::Lt(magnitude, hn::Set(d, 1.0F));
    const V up = hn::Set(d, power_of_two(kShift));
    const V down = hn::Set(d, power_of_two(-kShift));
    const VI min_exponent =
        hn::IfThenElse(hn::RebindMask(DI(), below_one), min_exponent_below_one_, min_exponent_from_one_);
    const V shifted = hn::Mul(magnitude, hn::IfThenElse(below_one, up, down));
    return hn::Mul(Round(d, shifted, min_exponent), hn::IfThenElse(below_one, down, up));
  }

  V largest_, overflow_from_, overflow_value_;
  VI to_addend_;
  VI min_exponent_ = hn::Zero(DI()), min_exponent_below_one_ = hn::Zero(DI());
  VI min_exponent_from_one_ = hn::Zero(DI());
  int dropped_bits_ = 0;
  bool one_zero_ = false;
  bool as_bits_ = false;
  bool wide_ = false;
  bool saturates_ = false;
};

template <class D>
auto MakeKernel(D d, const MinifloatParameters& parameters, uint64_t /*first_index*/) {
  return MinifloatKernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_MINIFLOAT_INL_H_
